// Parts that several screens of the console use.
import { ErrorNotice, Icon, Skeleton } from '../page/components.js';
import { formatNumber, locale, t, tRich } from '../page/i18n.js';
import { html } from '../page/view.js';

export const refreshEvery = 10000;

const isEmpty = (value) => value === null || value === undefined || value === '';

// formatAge returns some milliseconds in their largest unit.
export function formatAge(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const [unit, length] = [
    ['d', 86400],
    ['h', 3600],
    ['min', 60],
    ['s', 1],
  ].find(([, seconds]) => s >= seconds) ?? ['s', 1];
  return t(unit, { n: Math.floor(s / length) });
}

// The operator's time zone by its city, as in Shanghai.
const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
export const zone = html`<bdi>${timeZone.split('/').pop().replaceAll('_', ' ')}</bdi>`;

const hours = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const format = (at, options) => new Intl.DateTimeFormat(locale, options).format(new Date(at));

// formatHour returns the time of day in the operator's zone.
export const formatHour = (at) => format(at, hours);

// formatAt returns the time of day in the operator's zone and in UTC.
export const formatAt = (at) => [
  timeZone !== 'UTC' && [formatHour(at), ' ', zone, ', '],
  format(at, { ...hours, timeZone: 'UTC' }),
  html` <bdi>UTC</bdi>`,
];

// when returns a time for people, with its zone and its age; null stays.
export function when(at) {
  if (!at) return at;
  const age = Date.now() - Date.parse(at);
  const year = new Date(at).getFullYear() === new Date().getFullYear() ? undefined : 'numeric';
  const shown = format(at, { year, month: 'short', day: 'numeric', ...hours, second: '2-digit' });
  return html`<time datetime=${at} title=${at}>
    ${shown} ${zone}${' '}
    <span class="label">· ${t(age < 0 ? 'in' : 'ago', { time: formatAge(Math.abs(age)) })}</span>
  </time>`;
}

export const number = (n) => (isEmpty(n) ? null : formatNumber(n));

// dayOf returns the day of a bucket as the API takes it, such as 2026-11-20. Other names
// stay.
export const dayOf = (bucket) => bucket.replace(/^(\d{4})(\d\d)(\d\d)$/, '$1-$2-$3');

// userPath is the path of the calls about a user.
export const userPath = (id) => `/v1/admin/users/${encodeURIComponent(id)}`;

// userLink leads to a user's screen. It shows the id, or another text.
export const userLink = (id, text = id) =>
  id && html`<a class="link" href=${`#/users/${encodeURIComponent(id)}`}><bdi>${text}</bdi></a>`;

// person names the user of a row by the nickname, which leads to the user's screen, and the id.
export const person = ({ user_id: id, nickname }) =>
  nickname && id
    ? html`<span>${userLink(id, nickname)} <bdi class="label">${id}</bdi></span>`
    : userLink(id);

// personText is person without a link.
export const personText = ({ user_id: id, nickname }) => [nickname, id].filter(Boolean).join(' · ');

// boardLink leads to a board's screen.
export const boardLink = (board) =>
  board && html`<a class="link" href=${`#/boards/${board}`}><bdi>${board}</bdi></a>`;

// dayLink leads to the screen of a board's day.
export const dayLink = (board, day) =>
  day && board ? html`<a class="link" href=${`#/boards/${board}/${day}`}>${day}</a>` : day;

// State shows a state of something, in a colour of its kind.
export function State({ value }) {
  return value && html`<span class=${`state state-${value}`}>${t(`state_${value}`)}</span>`;
}

// Table shows rows by columns, which are [text, value of a row]. On a narrow screen each
// row becomes a card. end returns what follows the last column, and tick what is before the first
// one.
export function Table({ label, columns, rows, keyOf, end, tick }) {
  const head = columns.map(([text]) => html`<th scope="col" key=${text}>${t(text)}</th>`);
  const cell =
    (row) =>
    ([text, value]) => {
      const shown = value(row);
      return html`<td key=${text} data-label=${t(text)}>${isEmpty(shown) ? '–' : shown}</td>`;
    };
  const line = (row) => html`<tr key=${keyOf(row)}>
    ${tick && html`<td class="picks">${tick(row)}</td>`}${columns.map(cell(row))}
    ${end && html`<td class="row-actions">${end(row)}</td>`}
  </tr>`;
  return html`<table class="table" aria-label=${label}>
    <thead>
      <tr>
        ${tick && html`<td></td>`}${head}${end && html`<td></td>`}
      </tr>
    </thead>
    <tbody>
      ${rows.map(line)}
    </tbody>
  </table>`;
}

// Facts shows pairs of [text, value].
export function Facts({ pairs }) {
  const pair = ([text, value]) => html`<div key=${text}>
    <dt>${t(text)}</dt>
    <dd>${isEmpty(value) ? '–' : value}</dd>
  </div>`;
  return html`<dl class="facts">${pairs.map(pair)}</dl>`;
}

// Stale says that what is shown is out of date, and why.
function Stale({ error, at }) {
  const reason = t(error.status === 0 ? 'offlineTitle' : 'unavailable');
  return html`<p class="banner" role="status">
    <${Icon} name="cloud" /><span>${reason} · ${tRich('asOf', { time: formatAt(at) })}</span>
  </p>`;
}

// Fetched shows what useFetch has returned: a skeleton, an error, or the children, which
// is called with the data, under a banner if they are out of date.
export function Fetched({ result: [{ data, error, at }, retry], children }) {
  if (!data && error) return html`<${ErrorNotice} error=${error} retry=${retry} />`;
  if (!data) return html`<${Skeleton} />`;
  return html`${error && html`<${Stale} error=${error} at=${at} />`}${children(data)}`;
}

// Empty says that there is nothing to show.
export const Empty = ({ text }) => html`<p class="empty" role="status">${t(text)}</p>`;

// Panel is a section of a screen.
export function Panel({ title, children }) {
  return html`<section class="card panel">${title && html`<h2>${title}</h2>`}${children}</section>`;
}
