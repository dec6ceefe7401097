// Controls and charts that several views use.

export default {
  "{often} Here they differ; the view opens with such an example.": "{often}这里两者不同；本页打开时选用的就是这样的例子。",
  "{label}: step back": "{label}：后退一步",
  "{label}: step forward": "{label}：前进一步",
  "{label}: play": "{label}：播放",
  "{label}: pause": "{label}：暂停",
  "{index} of {total}": "{index} / {total}",
  "Example of {digit}": "数字 {digit} 的样例",
};
