// The texts about likes.
export const texts = {
  en: {
    like: 'Like {name}',
    likes: { one: '{n} like', other: '{n} likes' },
    likers: 'Who likes your steps',
    noLikers: 'Nobody likes them any more',
    newestLikers: 'These are the newest {n}.',
    likeFailed: 'Your like for {name} was not saved. Try again.',
    unlikeFailed: 'Your like for {name} could not be taken back. Try again.',
  },
  'zh-CN': {
    like: '给 {name} 点赞',
    likes: '{n} 个赞',
    likers: '谁给你点了赞',
    noLikers: '现在没有人点赞',
    newestLikers: '这里是最新的 {n} 个赞。',
    likeFailed: '给 {name} 的点赞没有保存，请重试。',
    unlikeFailed: '没能取消给 {name} 的点赞，请重试。',
  },
};
