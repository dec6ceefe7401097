// The tour.

export default {
  "Tour": "导览",
  "A tour of a minute": "一分钟导览",
  "Nine steps that draw, turn and scramble for you, with the controls of the views.": "共九步：用各视图自己的控件替你书写、旋转和打乱。",
  "Start the tour": "开始导览",
  "Back": "上一步",
  "Next": "下一步",
  "Finish": "完成",
  "Stop the tour": "结束导览",
  "This step does not work here, for example because weights are missing. Go on with the next one.": "这一步在这里无法进行，例如缺少权重。请继续下一步。",
  "This digit was drawn for you. Of the ten digit capsules, that of {best} is the longest, with length {length}: this is the network's answer.": "这个数字是替你写的。十个数字胶囊中，{best} 的胶囊最长，长度为 {length}：这就是网络的答案。",
  "From the image to the reconstruction: a convolution finds features, {count} positions have primary capsules, these vote, and the decoder draws the longest of the ten digit capsules, {best}.": "从图像到重构：卷积提取特征，{count} 个位置各有初级胶囊，它们投票，解码器再画出十个数字胶囊中最长的那个：{best}。",
  "These are the {count} iterations of routing. At first every position sends the same share to all digits; in the end {best} gets more than any other digit.": "这是路由的 {count} 次迭代。起初每个位置向所有数字均分输送；最后 {best} 得到的比其他任何数字都多。",
  "One of the 16 numbers of the capsule has moved from {before} to {after}. The decoder drew the digit again at each step.": "胶囊 16 个数中的一个从 {before} 变到了 {after}，解码器随之一次次重新画出数字。",
  "The parts of the image vote for the pose of each digit. From the first iteration to the last, they send a growing share to {best}, with which their votes agree.": "图像的部件为每个数字的位姿投票。从第一次迭代到最后一次，它们向 {best} 输送的份额不断增加，因为它们的投票与它一致。",
  "Two digits lie over each other. The two longest capsules are {one} and {two}, and each of them draws its own digit.": "两个数字叠在一起。最长的两个胶囊是 {one} 和 {two}，它们各自画出自己的数字。",
  "A house, turned by 140 degrees. The network finds its parts, and the wholes that they predict agree.": "一座旋转了 140 度的房子。网络找到了它的部件，这些部件预测的整体彼此一致。",
  "The same parts, put together in a wrong way: parts are found, but no whole.": "同样的部件，以错误的方式拼在一起：找到了部件，但没有整体。",
  "Now it is your turn: draw a digit, or open a view.": "现在轮到你了：写一个数字，或打开任一视图。",
};
