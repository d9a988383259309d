// The texts for somebody who is not signed in.
export const texts = {
  en: {
    token: 'Token',
    showRanking: 'Show my ranking',
    tokenHint:
      'An operator creates one with {command}. It stays in this tab’s memory and is gone when you close it.',
    welcome: 'Where do you stand among your friends?',
    invited: 'You are invited to a group. Sign in to join it.',
    invitedByFriend: 'A friend invites you. Sign in to accept.',
    badToken: 'This token is not valid, or no longer. Get a new one.',
    docs: 'API',
    signIn: 'Sign in',
    forDevelopers: 'For developers',
  },
  'zh-CN': {
    token: '令牌',
    showRanking: '查看我的排名',
    tokenHint: '管理员可以生成令牌：{command}。令牌只保存在当前标签页的内存中，关闭即失效。',
    welcome: '看看你在好友中排第几',
    invited: '有人邀请你加入小组，请先登录。',
    invitedByFriend: '好友邀请你，请先登录。',
    badToken: '令牌无效或已过期，请重新获取。',
    docs: 'API',
    signIn: '登录',
    forDevelopers: '开发者',
  },
};
