// Controls and charts that several views use.

export default {
  "{often} On this input they differ.": "{often}在当前输入上两者不同。",
  "{label}: step back": "{label}：后退一步",
  "{label}: step forward": "{label}：前进一步",
  "{label}: play": "{label}：播放",
  "{label}: pause": "{label}：暂停",
  "{index} of {total}": "{index} / {total}",
  "Example of {digit}": "数字 {digit} 的样例",
};
