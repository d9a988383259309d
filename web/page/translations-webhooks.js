// The texts of the profile's links, and about the webhooks of the demo.
export const texts = {
  en: {
    connectPhone: 'Connect a phone',
    devices: 'My devices',
    console: 'Console',
    webhooks: 'Webhooks of this demo',
    webhooksHint:
      'The demo sends every webhook to itself, in place of your backend. These are the last ones of each type.',
    verified: 'Signature verified',
    moreBytes: 'and {n} more bytes',
    noMessages: 'Nothing has arrived yet',
    noMessagesHint: 'Like somebody’s steps, or accept a friend request.',
  },
  'zh-CN': {
    connectPhone: '连接手机',
    devices: '我的设备',
    console: '控制台',
    webhooks: '演示的 Webhook',
    webhooksHint: '演示把所有 Webhook 都发给自己，代替你的后端。这里是每种类型最近的几条。',
    verified: '签名已验证',
    moreBytes: '还有 {n} 字节',
    noMessages: '还没有收到消息',
    noMessagesHint: '给别人的步数点个赞，或者接受一个好友请求。',
  },
};
