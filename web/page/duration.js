// How long something takes, in words.
import { addTexts, t } from './i18n.js';

addTexts({
  en: {
    left: '{time} left',
  },
  'zh-CN': {
    left: '还剩 {time}',
  },
});

// formatDuration returns a time in milliseconds in its largest units, at most so many.
export function formatDuration(ms, most = 2) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const units = [
    ['d', Math.floor(s / 86400)],
    ['h', Math.floor(s / 3600) % 24],
    ['min', Math.floor(s / 60) % 60],
    ['s', s % 60],
  ];
  let largest = units.findIndex(([, n]) => n > 0);
  if (largest < 0) largest = units.length - 1;
  return units
    .slice(largest, largest + most)
    .map(([unit, n]) => t(unit, { n }))
    .join(' ');
}
