// Compare.

export default {
  Compare: "对比",
  "Compare two networks": "对比两个网络",
  "Two networks get the same image. Their scores have one scale, from 0 to 1, but not one meaning: each card says what its scores are. An attack changes the image for each network with its own gradient.":
    "两个网络得到同一张图像。它们的得分都画在 0 到 1 的同一刻度上，但含义不同：每张卡片都注明了自己的得分是什么。攻击时，每个网络的图像按它自己的梯度修改。",
  "lengths of capsules: each from 0 to 1, independent of the others": "胶囊的长度：每个都在 0 到 1 之间，彼此独立",
  "each score from 0 to 1, independent of the others": "每个得分都在 0 到 1 之间，彼此独立",
  "a softmax: the scores add up to 1": "softmax：各得分之和为 1",
  "gray images": "灰度图像", "stereo pairs": "立体图像对", "color images": "彩色图像", "images with {count} channels": "{count} 通道的图像",
  "First network": "第一个网络", "Second network": "第二个网络", Attack: "攻击", "No attack": "不攻击",
  "ε, the largest change of a pixel": "ε，每个像素的最大改变量", "{value} of 1": "{value}（满值为 1）",
  Images: "图像", "The input": "输入",
  "FGSM takes one step along the sign of the gradient, PGD ten smaller ones from a random start.": "FGSM 沿梯度符号走一步；PGD 从随机起点出发，走十个更小的步。",
  "No other network here reads {kind}, as {name} does.": "{name} 读取{kind}，这里没有其他网络读取这种图像。",
  "{name} reads {kind}. Not offered beside it, because they read other images: {others}.": "{name} 读取{kind}。以下网络读取的图像不同，因此不能与它对比：{others}。",
  "Your drawing": "你画的图", "your run": "你的训练", "{score}": "{score}",
  "test digits of MNIST": "MNIST 测试集的数字", "two digits of MNIST": "两个 MNIST 数字叠加", "test scenes of shapes": "shapes 的测试场景", "test scenes of faces": "faces 的测试场景",
  "What the network gets": "网络得到的图像", Reconstruction: "重建", "Attacked image": "攻击后的图像", "Change of each pixel": "每个像素的变化",
  "Scores of {name}": "{name} 的得分",
  "Reconstruction from the capsule of the best class": "由得分最高的类别胶囊重建",
  "Change: purple brighter, green darker": "变化：紫色变亮，绿色变暗",
  "After {attack} with ε = {epsilon}": "{attack} 攻击后，ε = {epsilon}",
  "{before} before the attack, {after} after it": "攻击前 {before}，攻击后 {after}",
  "recipe {name}": "配方 {name}",
  Toy: "玩具", Azimuth: "方位角", Elevation: "仰角", Instance: "个体", Lighting: "光照",
  animal: "动物", human: "人", plane: "飞机", car: "汽车",
};
