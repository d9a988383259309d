// Texts, numbers and dates in the visitor's language.
import { read, store } from './storage.js';
import { translations } from './translations.js';

// The languages of the page by locale, each by its own name.
export const languages = { en: 'English', 'zh-CN': '中文' };

const storageKey = 'language';

// keptLocale returns the locale that the visitor chose, or undefined.
function keptLocale() {
  const kept = read(storageKey);
  return Object.hasOwn(languages, kept) ? kept : undefined;
}

function browserLocale() {
  const language = navigator.languages?.[0] ?? navigator.language ?? 'en';
  return language.toLowerCase().startsWith('zh') ? 'zh-CN' : 'en';
}

export let locale;
let texts;
let plurals;
let integerFormat;
let dateFormats;

const dateOptions = {
  weekday: { weekday: 'short', timeZone: 'UTC' },
  day: { month: 'short', day: 'numeric', timeZone: 'UTC' },
  longDay: { weekday: 'long', month: 'long', day: 'numeric', timeZone: 'UTC' },
  dateTime: { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' },
  time: { hour: '2-digit', minute: '2-digit', second: '2-digit' },
};

// regionOf returns the visitor's own form of a language, such as en-GB, whose dates differ.
function regionOf(language) {
  const [wanted] = language.split('-');
  return navigator.languages?.find((form) => form.split('-')[0] === wanted) ?? language;
}

function use(newLocale) {
  locale = newLocale;
  texts = translations[locale];
  plurals = new Intl.PluralRules(locale);
  integerFormat = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
  dateFormats = {};
  const region = regionOf(locale);
  for (const [name, options] of Object.entries(dateOptions)) {
    dateFormats[name] = new Intl.DateTimeFormat(region, options);
  }
  document.documentElement.lang = locale;
}
use(keptLocale() ?? browserLocale());

// setLocale changes the language from the next time that the page is drawn, and
// keeps it for the next visit where there is storage.
export function setLocale(newLocale) {
  use(newLocale);
  store(storageKey, newLocale);
}

const capitalize = (text) => text.replace(/^./, (first) => first.toUpperCase());

// boardTitle returns the translated name of a board, or its own name in words.
export const boardTitle = (name) => texts.boardTitles[name] ?? capitalize(name.replace(/-/g, ' '));

// addTexts adds the texts of a screen that is loaded later.
export function addTexts(more) {
  for (const [key, { errors, ...rest }] of Object.entries(more)) {
    Object.assign(translations[key], rest);
    Object.assign(translations[key].errors, errors);
  }
}

const formOf = (text, count) => text[plurals.select(count ?? 0)] ?? text.other ?? text;

// t returns the text of a key in the visitor's language, with values filled in. The
// value count, a number, chooses the form of a text that has several.
export function t(key, values = {}) {
  return formOf(texts[key], values.count).replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// errorOf returns the text of one of the API's error codes, or undefined.
export const errorOf = (code) => texts.errors[code];

// tRich is t for values that may be elements. It returns an array of children.
export function tRich(key, values) {
  return formOf(texts[key], values.count)
    .split(/(\{\w+\})/)
    .map((text) => (text[0] === '{' ? values[text.slice(1, -1)] : text));
}

const knownUnits = ['steps', 'coins', 'points'];

// unitOf returns what the scores of a board count, for a number of them: in the reader's language if
// the page knows the unit, and otherwise as the board has it.
export const unitOf = (unit, count) =>
  knownUnits.includes(unit) && texts[unit] ? t(unit, { count }) : unit;

export const unitTitle = (unit) => (knownUnits.includes(unit) ? capitalize(unitOf(unit)) : unit);

export const formatNumber = (n) => integerFormat.format(n);

const ordinals = new Intl.PluralRules('en', { type: 'ordinal' });
const suffixes = { one: 'st', two: 'nd', few: 'rd', other: 'th' };

// rankParts returns a rank as [prefix, number, suffix], so that the number can
// be shown larger than the rest.
export function rankParts(rank) {
  if (locale === 'zh-CN') return ['第', formatNumber(rank), '名'];
  return ['', formatNumber(rank), suffixes[ordinals.select(rank)]];
}
export const formatRank = (rank) => rankParts(rank).join('');

// A day is YYYY-MM-DD in the board's time zone. It is formatted as midnight UTC,
// so that the visitor's time zone does not move it.
const midnight = (day) => new Date(`${day}T00:00:00Z`);
export const formatWeekday = (day) => dateFormats.weekday.format(midnight(day));
export const formatDay = (day) => dateFormats.day.format(midnight(day));
export const formatLongDay = (day) => dateFormats.longDay.format(midnight(day));
export const formatDateTime = (instant) => dateFormats.dateTime.format(new Date(instant));
export const formatTime = (instant) => dateFormats.time.format(new Date(instant));

export function addDays(day, n) {
  return new Date(midnight(day).getTime() + n * 864e5).toISOString().slice(0, 10);
}

// isDay reports whether a text is a day that exists.
export function isDay(text) {
  return /^\d{4}-\d\d-\d\d$/.test(text) && !isNaN(midnight(text)) && addDays(text, 0) === text;
}

// stripBidi removes the characters that change the direction of the text after
// them. Use it for names in plain text, such as attributes.
export const stripBidi = (name) =>
  name.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '');
