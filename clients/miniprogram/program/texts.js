// Every text of the screens. words are what pages put into their data.
const chinese = {
  words: {
    today: '今天',
    history: '历史',
    me: '我',
    friends: '好友',
    steps: '步',
    nameless: '未取名',
    noSteps: '今天还没有步数',
    nobody: '还没有人上榜。邀请好友一起走吧。',
    alone: '现在只有你。邀请好友一起走吧。',
    noDays: '还没有记录。打开微信运动，走几步再来看看。',
    welcome: '和好友比比步数',
    explain: '我们会读取你的微信运动步数，展示给你的好友和群组成员。好友看到的是这里填写的昵称。',
    nickname: '昵称',
    start: '开始',
    save: '保存',
    accept: '接受',
    ignore: '忽略',
    retry: '重试',
    openSettings: '去设置',
    invite: '邀请好友',
    inviteHint: '发卡片给好友，对方接受后互相看到步数',
    groups: '群组',
    noGroups: '还没有群组',
    groupName: '群组名称',
    create: '新建',
    groupCode: '邀请码',
    joinGroup: '加入',
    share: '邀请',
    leave: '退出',
    members: '人',
    cancel: '取消',
    confirm: '确定',
    erase: '删除我的数据',
    eraseSure: '你的步数、好友和群组都会被删除，无法恢复。',
    erased: '正在删除你的数据',
    saved: '已保存',
    joined: '已加入',
  },
  stepsProblems: {
    held: '今天的步数偏高，核实后才会计入排行。',
    denied: '你没有允许读取微信运动步数，所以这里没有你的步数。',
    disagreed: '同意《用户隐私保护指引》后，才能读取你的步数。',
    unreadable: '这次没能读取你的步数，请稍后再试。',
    failed: '微信没有提供步数。请确认已开启微信运动。',
  },
  place: (rank, total) => `第 ${rank} 名，共 ${total} 人`,
  day: (month, day, weekday) => `${month}月${day}日 周${'日一二三四五六'[weekday]}`,
  invitation: (name, group) =>
    group
      ? `${name || '有人'}邀请你加入“${group}”`
      : `${name || '有人'}邀请你成为好友，互相看到步数`,
  card: (group) => (group ? `加入“${group}”，一起比步数` : '和我比比今天的步数'),
  leaveSure: (name) => `退出“${name}”？`,
  problems: {
    offline: '没有网络，看到的可能不是最新的。',
    busy: '请求太多，请稍后再试。',
    refused: '微信限制了这个账号，无法登录。',
    login: '登录没有成功，请重试。',
    gone: '邀请已失效。',
    full: '人数已满。',
    text: '这个名字不能用，请换一个。',
    other: '服务暂时无法使用，请稍后再试。',
  },
};

const english = {
  words: {
    today: 'Today',
    history: 'History',
    me: 'Me',
    friends: 'Friends',
    steps: 'steps',
    nameless: 'No name yet',
    noSteps: 'No steps yet today',
    nobody: 'Nobody is here yet. Invite your friends.',
    alone: 'Only you so far. Invite your friends.',
    noDays: 'No days yet. Turn on WeRun and come back after a walk.',
    welcome: 'Steps among friends',
    explain:
      'We read your steps from WeRun and show them to your friends and groups, under the name you enter here.',
    nickname: 'Name',
    start: 'Start',
    save: 'Save',
    accept: 'Accept',
    ignore: 'Ignore',
    retry: 'Retry',
    openSettings: 'Settings',
    invite: 'Invite friends',
    inviteHint: 'Send a card. Once accepted, you see each other’s steps.',
    groups: 'Groups',
    noGroups: 'No groups yet',
    groupName: 'Name of a new group',
    create: 'Create',
    groupCode: 'Invite code',
    joinGroup: 'Join',
    share: 'Invite',
    leave: 'Leave',
    members: 'joined',
    cancel: 'Cancel',
    confirm: 'OK',
    erase: 'Delete my data',
    eraseSure: 'Your steps, friends and groups are deleted. This can’t be undone.',
    erased: 'Your data are being deleted',
    saved: 'Saved',
    joined: 'Joined',
  },
  stepsProblems: {
    held: 'Your steps are unusually high. They count once somebody has looked at them.',
    denied: 'You have not permitted reading your WeRun steps, so none of yours are here.',
    disagreed: 'Your steps can be read once you agree to the privacy declaration.',
    unreadable: 'Your steps could not be read this time. Try again later.',
    failed: 'WeChat gave no steps. Please check that WeRun is on.',
  },
  place: (rank, total) => `${rank} of ${total}`,
  day: (month, day, weekday) =>
    `${['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'][weekday]} ${month}/${day}`,
  invitation: (name, group) =>
    group
      ? `${name || 'Somebody'} invites you to “${group}”`
      : `${name || 'Somebody'} wants to be friends and compare steps`,
  card: (group) => (group ? `Join “${group}” and compare steps` : 'Compare today’s steps with me'),
  leaveSure: (name) => `Leave “${name}”?`,
  problems: {
    offline: 'No connection. What you see may be out of date.',
    busy: 'Too many requests. Please try again later.',
    refused: 'WeChat has restricted this account.',
    login: 'The login failed. Please try again.',
    gone: 'The invitation has ended.',
    full: 'There is no room for more.',
    text: 'This name can’t be used. Please choose another one.',
    other: 'The service can’t answer right now. Please try again later.',
  },
};

const { language } = wx.getAppBaseInfo ? wx.getAppBaseInfo() : wx.getSystemInfoSync();
const texts = /^zh/i.test(language) ? chinese : english;

const problemsByCode = {
  friend_limit: 'full',
  group_full: 'full',
  group_limit: 'full',
  not_found: 'gone',
  wechat_code_invalid: 'login',
};
const problemsByLocation = {
  'body.invite_code': 'gone',
  'body.name': 'text',
  'body.nickname': 'text',
  'path.code': 'gone',
};
const problemsByStatus = { 0: 'offline', 401: 'login', 403: 'refused', 429: 'busy' };

/** problem returns what to say about a StepboardError. */
const problem = ({ code, locations = [], status }) =>
  texts.problems[
    problemsByLocation[locations[0]] ?? problemsByCode[code] ?? problemsByStatus[status] ?? 'other'
  ];

/** dayOf returns how to write a date such as 2026-11-20. */
function dayOf(date) {
  const [, month, day] = date.split('-').map(Number);
  return texts.day(month, day, new Date(date).getUTCDay());
}

module.exports = { ...texts, problem, dayOf };
