// The view of a run.

export default {
  "Your run": "你的训练",
  "The curves of the training, up to now, and the network with its newest weights: choose a test image, draw one or upload one, and see its class capsules and the capsules that send to them.":
    "到目前为止的训练曲线，以及使用最新权重的网络：选一张测试图像、自己画一张或上传一张，查看类别胶囊，以及哪些胶囊向它们发送信息。",
  Training: "训练", "in training": "训练中", finished: "已完成", "stopped before its end": "提前停止",
  "{model} on {data}, {epochs} epochs in its recipe": "{model}，数据集 {data}，配方共 {epochs} 轮",
  "There are no weights yet: they are saved at the end of an epoch, or after two minutes.": "还没有权重：每轮结束时保存一次，或每两分钟保存一次。",
  "Weights of step {step}": "第 {step} 步的权重",
  "Test images of the run": "测试图像", "Upload an image": "上传图像", "Area to draw an image": "绘图区", Undo: "撤销",
  "Capsules that send most": "发送最多的胶囊", Couplings: "耦合系数", "which capsules send to the classes": "哪些胶囊向各类别发送信息",
  "Color: how much each place of the image sends to the class, from the least to the most. Below: the capsules that send most.": "颜色表示图像各处向该类别发送多少，从最少到最多。下方列出发送最多的胶囊。",
  "The image": "图像", Scores: "得分", "The network's input": "网络的输入",
  "not an image": "不是图像",
  "This file cannot be read as an image: PNG, JPEG and WebP can.": "这个文件无法作为图像读取，支持 PNG、JPEG 和 WebP。",
  "the data set says {name}": "数据集的标签是 {name}",
  "This network has no capsules.": "这个网络没有胶囊。", "Class capsules": "类别胶囊",
  "{size} numbers each; the scores are their lengths.": "每个胶囊有 {size} 个数，得分就是它们的长度。",
  "{size} numbers each; the length of each pose:": "每个胶囊有 {size} 个数，各位姿的长度为：",
  "Lengths of the class capsules": "类别胶囊的长度",
  "Where {name} gets its votes from": "{name} 的投票来自哪里",
  "Images of {width} × {height} pixels; others are scaled as in training.": "图像为 {width} × {height} 像素，其他尺寸按训练时的方式缩放。",
  "row {row}, column {column}": "第 {row} 行第 {column} 列", "coupling {value}": "耦合系数 {value}", "{share} % of what it gets": "占接收总量的 {share} %",
  step: "步", "recent steps": "最近若干步", "whole epoch": "整轮", "test images": "测试图像",
  Loss: "损失", Accuracy: "准确率", "Learning rate": "学习率", "learning rate": "学习率", Speed: "速度", speed: "速度",
  "images per second": "张/秒", "{value} images/s": "{value} 张/秒",
  "Nothing is written yet: a line is added every 100 steps and at the end of each epoch.": "还没有记录：每 100 步以及每轮结束时写入一行。",
};
