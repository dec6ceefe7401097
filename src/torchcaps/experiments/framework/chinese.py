"""The claims in Chinese, for the table of verdicts in README.zh-CN.md."""

from __future__ import annotations

CLAIMS = {
    "two-digits": "只用单个数字训练，胶囊网络也能认出两个数字，带池化的 CNN 不能",
    "perturb": "类别胶囊的每一维都有含义",
    "overlap": "路由能分开高度重叠的数字",
    "affine": "在原始图像上同样准确时，胶囊网络比 CNN 更能适应仿射变换",
    "ablation": "三次迭代、spread 损失、矩阵位姿和坐标相加都能降低错误率",
    "viewpoints": "在熟悉的视角上同样准确时，矩阵胶囊比 CNN 更能推广到新视角",
    "adversarial": "面对白盒对抗攻击，胶囊网络比 CNN 更稳健",
    "votes": "路由能在投票中找到紧密的簇",
    "implicit": "可以用方程定义一个层：展开几次迭代，效果与精确解相当",
    "clustering": "路由就是聚类：EM 路由是高斯混合模型，极限情形是 k-means",
    "fixed-point": "累加会使耦合系数变成 0 或 1，不动点形式的路由则收敛",
    "iterations": "路由迭代次数多了会过拟合，三次最好",
    "squash": "squash 中的 1 换成 0.5，效果略好",
    "reconstruction": "用重建作正则化能降低测试错误率",
    "less-data": "胶囊网络需要的训练图像只是 CNN 的一小部分",
    "boats": "部件通过一致的投票找到自己所属的整体",
    "equivariance": "物体移动时，胶囊的长度不变，位姿改变",
    "transforming": "训练网络画出按给定位移移动后的图像，胶囊会学到以位置为位姿",
    "wholes": "整体只要学过直立的样子，任何角度、大小和位置都能认出，因为部件与整体的关系不随视角变化",
    "scrambled": "只见过整体的胶囊网络，能看出同样的部件以错误的关系摆放时不构成整体",
    "few": "胶囊网络学会整体所需的样本是 CNN 的十分之一，因为整体就是已知部件之间的关系",
    "poses": "整体的位姿与部件的位姿一样精确：图像越干净、可见的部件越多，误差越小",
    "crowds": "只学过单个整体的胶囊网络能读懂有多个整体的场景，因为一个部件只属于一个整体",
    "hierarchy": "整体又是更大整体的部件：直立学会的组合，在任何角度都能读成一棵树",
    "parts-unlabeled": "不给部件任何标注，只靠重画图像，网络就能学到部件及其位姿，并认出没见过的角度上的整体",
    "solids": "只从前方学过的立体整体，从任何一侧都能认出，因为部件与整体的关系不随视角变化",
}
"""A claim for each name of `list_claims`, in one sentence without a full stop."""
