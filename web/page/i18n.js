// The visitor's language: words, numbers and dates.
import { words } from './translations.js';

const chinese = (navigator.languages?.[0] ?? navigator.language ?? 'en')
  .toLowerCase()
  .startsWith('zh');
export const locale = chinese ? 'zh-CN' : 'en';
const dictionary = words[locale];
document.documentElement.lang = locale;

// boardName is what people call a board.
export const boardName = (name) =>
  dictionary.boardNames[name] ??
  name.replace(/-/g, ' ').replace(/^./, (first) => first.toUpperCase());

// t says something; values are put in as they are.
export function t(key, values = {}) {
  return dictionary[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// parts is t with values that may be elements.
export function parts(key, values) {
  return dictionary[key]
    .split(/(\{\w+\})/)
    .map((text) => (text[0] === '{' ? values[text.slice(1, -1)] : text));
}

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
export const number = (n) => whole.format(n);

const ordinals = new Intl.PluralRules('en', { type: 'ordinal' });
const endings = { one: 'st', two: 'nd', few: 'rd', other: 'th' };

// place is a rank as a big figure and the small text before and after it.
export function place(rank) {
  return chinese ? ['第', number(rank), '名'] : ['', number(rank), endings[ordinals.select(rank)]];
}
export const placeText = (rank) => place(rank).join('');

// Days are YYYY-MM-DD of the board's zone: plain dates, for which UTC serves.
const utc = (day) => new Date(`${day}T00:00:00Z`);
const format = (options) => {
  const f = new Intl.DateTimeFormat(locale, options);
  return (date) => f.format(date);
};
const weekdays = format({ weekday: 'short', timeZone: 'UTC' });
const shorts = format({ month: 'short', day: 'numeric', timeZone: 'UTC' });
const longs = format({ weekday: 'long', month: 'long', day: 'numeric', timeZone: 'UTC' });
const moments = format({ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });
const clocks = format({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
export const weekday = (day) => weekdays(utc(day));
export const shortDay = (day) => shorts(utc(day));
export const longDay = (day) => longs(utc(day));
export const moment = (time) => moments(new Date(time));
export const clockTime = (time) => clocks(new Date(time));
export const addDays = (day, n) =>
  new Date(utc(day).getTime() + n * 864e5).toISOString().slice(0, 10);

// duration is a stretch of time in its two largest units.
export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const units = [
    ['d', Math.floor(s / 86400)],
    ['h', Math.floor(s / 3600) % 24],
    ['min', Math.floor(s / 60) % 60],
    ['s', s % 60],
  ];
  const first = Math.min(units.findIndex(([, n]) => n > 0) >>> 0, units.length - 1);
  return units
    .slice(first, first + 2)
    .map(([unit, n]) => t(unit, { n }))
    .join(' ');
}

// plain is a name for places that take text alone: characters that turn the
// writing direction of what follows are left out.
export const plain = (name) => name.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '');
