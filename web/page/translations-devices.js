// The texts about the devices on which somebody is signed in.
export const texts = {
  en: {
    thisDevice: 'This device',
    unnamedDevice: 'A device',
    deviceUsed: 'Last used {when}',
    deviceEnded: 'The device is signed out, within a quarter of an hour at the latest.',
    deviceCode: 'Sign in on another device',
    deviceCodeHint:
      'A code works once, within a quarter of an hour. Making one ends the one before.',
    deviceLink: 'Open or scan this on the other device',
    deviceLinkHint:
      'Or type the code there, under “Already here? Type a code”. Whoever has it is you.',
  },
  'zh-CN': {
    thisDevice: '这台设备',
    unnamedDevice: '一台设备',
    deviceUsed: '最近使用：{when}',
    deviceEnded: '该设备最迟在一刻钟内退出登录。',
    deviceCode: '在另一台设备上登录',
    deviceCodeHint: '代码一刻钟内有效，只能用一次。生成新代码会使旧代码失效。',
    deviceLink: '在另一台设备上打开或扫描',
    deviceLinkHint: '也可以在那里的“已经在这里？输入代码”处输入。拿到代码的人就能以你的身份登录。',
  },
};
