// The texts of the form of a group's challenge.
export const texts = {
  en: {
    challenge_from: 'From',
    challenge_to: 'To',
    challengeHint: 'All steps of these days add up, for every member.',
    challengePresets: 'Kinds of challenges',
    challengeError: 'A challenge has 1 to 31 days.',
    challengeSet: 'The challenge is set.',
    challengeEnd: 'Remove',
    challengeEnded: 'The challenge is removed.',
    start: 'Start',
  },
  'zh-CN': {
    challenge_from: '开始',
    challenge_to: '结束',
    challengeHint: '这些天里每位成员的步数都会累计。',
    challengePresets: '挑战赛类型',
    challengeError: '挑战赛须为 1 到 31 天。',
    challengeSet: '挑战赛已设定。',
    challengeEnd: '删除',
    challengeEnded: '挑战赛已删除。',
    start: '开始挑战',
  },
};
