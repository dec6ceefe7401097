// index.html, the header, the footer and what core/ says.

export default {
  "Skip to the view": "跳到正文",
  "*torchcaps* lab": "*torchcaps* 实验室",
  "{view} · torchcaps lab": "{view} · torchcaps 实验室",
  "Views": "视图",
  "Draw": "手写",
  "Tweak": "微调",
  "Overlap": "重叠",
  "Votes": "投票",
  "Parts and wholes": "部件与整体",
  "Turn a toy": "转动玩具",
  "Clusters": "聚类",
  "Attack": "攻击",
  "Copy link": "复制链接",
  "Copied": "已复制",
  "See the address": "请看地址栏",
  "Save": "保存",
  "Picture (PNG)": "图片（PNG）",
  "Table (CSV)": "表格（CSV）",
  "Numbers (JSON)": "数据（JSON）",
  "Switch between light and dark": "切换浅色与深色",
  "API": "API 文档",
  "1 trained network": "1 个训练好的网络",
  "{count} trained networks": "{count} 个训练好的网络",
  "routing kernels: {code}": "路由内核：{code}",
  "fused, {instructions}": "融合内核，{instructions}",

  "Draw a digit": "写一个数字",
  "Each digit has a capsule: 16 numbers that describe *how* it is written. Their length, from 0 to 1, tells *whether* it is present. The maps below show how much the positions of the image send to each capsule.":
    "每个数字对应一个胶囊：16 个数描述它写成*什么样*，向量的长度（0 到 1）表示它*是否*出现。下方的图显示图像各位置向每个胶囊输送了多少。",
  "Tweak a capsule": "微调一个胶囊",
  "These are the 16 numbers of the longest capsule. Move a slider: the decoder draws the digit again from the numbers alone.":
    "这是最长的那个胶囊的 16 个数。拖动滑块，解码器只凭这些数重新画出数字。",
  "Separate two digits": "分开两个数字",
  "Drag the digits over each other. The two longest capsules are the network's answer, and each of them draws its own reconstruction, in its own color.":
    "把两个数字拖到一起。最长的两个胶囊就是网络的答案，它们各自用自己的颜色画出重构。",
  "Watch the votes agree": "看投票如何达成一致",
  "Every part of the image votes for the pose of each digit. The farther right a dot, the better its vote agrees with the capsule; the larger, the more the part sends to it. Step through the iterations of the network.":
    "图像的每个部件都为每个数字的位姿投票。点越靠右，这一票与胶囊越一致；点越大，该部件向它输送得越多。请逐步查看网络的各次迭代。",
  "Drag, turn and scale the shapes. The network sees the picture only: it finds the parts, and each part predicts its whole. Press *Scramble* to put the parts of a whole together in a wrong way.":
    "拖动、旋转、缩放这些形状。网络只看到图片：它先找出部件，每个部件再预测自己所属的整体。按*打乱*可把一个整体的部件以错误的方式拼在一起。",
  "Drag the handle around the ring. The class of a toy stays the same when it is turned. Thick ticks mark the viewpoints used in training; other viewpoints, and toys that were not used in training, show how well each network generalizes.":
    "沿圆环拖动手柄。玩具转动后类别不变。粗刻度是训练用过的视角；其他视角以及训练中没有用过的玩具，可以看出各网络的泛化能力。",
  "Routing is clustering": "路由就是聚类",
  "Click to add points, and step through the iterations: the same code routes capsules. Points have the color and shape of the cluster that they are assigned to. Of twelve starts, the best fit is shown.":
    "点击添加点，再逐步查看迭代：胶囊的路由用的是同一段代码。点的颜色和形状表示它所属的簇。从十二次初始化中取拟合最好的一次显示。",
  "Attack a network": "攻击一个网络",
  "The fast gradient sign method changes every pixel by at most ε, in the direction that increases the loss. Raise ε until a prediction changes, and compare the networks: each is attacked with its own gradient.":
    "快速梯度符号法（FGSM）沿损失增大的方向改变每个像素，幅度不超过 ε。增大 ε 直到预测改变，并比较各网络：每个网络都用它自己的梯度来攻击。",

  "There is no drawing yet. ": "还没有手写内容。",
  "The weights of {model} trained on {data} are not installed. Reinstall torchcaps to get them.":
    "没有安装在 {data} 上训练的 {model} 的权重。重新安装 torchcaps 即可获得。",
  "The server is busy; the page tries again in a moment.": "服务器繁忙，页面稍后会自动重试。",
  "The server returned error {status}: {detail}": "服务器返回错误 {status}：{detail}",
  "The server returned error {status}.": "服务器返回错误 {status}。",
  "The server does not respond. Is torchcaps lab still running?": "服务器没有响应。torchcaps lab 还在运行吗？",
  "An error occurred on this page; the browser console shows the details.": "页面出错了，详情见浏览器控制台。",

  "{size} weights": "{size}个参数",
  "{share} errors on {count} test images of {data}": "在 {data} 的 {count} 张测试图像上错误率 {share}",
  "{share} errors on test images of {data}": "在 {data} 测试图像上错误率 {share}",
  "toys": "玩具数据集",
  "shapes": "形状数据集",
  "faces": "人脸数据集",
};
