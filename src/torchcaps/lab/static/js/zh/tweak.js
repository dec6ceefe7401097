// Tweak.

export default {
  "Reconstruction from the sliders": "由滑块数值重构的图像",
  "Dimension {number}": "第 {number} 维",
  "Reconstructions with dimension {number} from 0.25 less to 0.25 more": "第 {number} 维从减 0.25 到加 0.25 的重构图像",
  "dimension {number}: {value}": "第 {number} 维：{value}",
  "Reset dimension {number}": "重置第 {number} 维",
  "from the 16 numbers only": "只用这 16 个数",
  "Reset all": "全部重置",
  "Random": "随机",
  "The capsule": "胶囊",
  "16 numbers; in each row one of them is changed, the others stay": "16 个数；每一行只改变其中一个，其余不变",
  "now": "当前",
  "length {now}": "长度 {now}",
  "Look along a row to see what its number changes. Click a picture to set the number. The mark on a slider is the number of your drawing; ↺ goes back to it, ▸ moves the slider up and down.": "沿着一行看，就能看出这个数改变了什么。点击一张图即可把该维设为对应的数值。滑块上的刻线是你的图原来的数值；↺ 回到原值，▸ 让滑块来回移动。",
  "Stop dimension {number}": "停止第 {number} 维",
  "Animate dimension {number}": "播放第 {number} 维",
  "length {now}; in your drawing {before}. No capsule is longer than 1.": "长度 {now}，你的图为 {before}。胶囊的长度不会超过 1。",
  "length {now}; in your drawing {before}": "长度 {now}，你的图为 {before}",
  "These are the 16 numbers of the longest capsule. Each row shows what the decoder draws when one number changes by up to 0.25 and the others stay, as in Figure 4 of Sabour, Frosst and Hinton (2017).": "这是最长胶囊的 16 个数。每一行显示：只把其中一个数改变至多 0.25、其余不变时，解码器画出的图像，与 Sabour、Frosst 和 Hinton（2017）的图 4 相同。",
};
