// Boards: their definitions, and the days of each as a calendar.
import { useFetch } from '../page/data.js';
import {
  addDays,
  formatDateTime,
  formatDay,
  formatNumber,
  formatWeekday,
  isDay,
  t,
} from '../page/i18n.js';
import { html, useState } from '../page/view.js';
import { useActions } from './action.js';
import { archive, corrections, filterAddress, runs } from './lists.js';
import { PagedRows, Rows, withoutEmpty } from './list.js';
import {
  Empty,
  Facts,
  Fetched,
  number,
  Panel,
  refreshEvery,
  State,
  userLink,
  when,
} from './parts.js';

const kinds = ['daily', 'event', 'rolling'];
const orders = ['high', 'low'];
// hasOrder says whether a board may rank the lowest score first.
const hasOrder = ({ kind, takes }) => kind === 'daily' || (kind === 'event' && takes === 'best');
const ranksLow = (values) => hasOrder(values) && values.order === 'low';
const optionalNumber = (text) => (text === '' || text === undefined ? undefined : Number(text));
const instant = (text) => (text ? new Date(text).toISOString() : undefined);

// localTime returns an instant as a field of local time takes it.
function localTime(at) {
  const date = new Date(at);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

const isEvent = ({ kind }) => kind === 'event';
const audiences = () => ['users', 'service'].map((who) => [who, t(`audience_${who}`)]);
const takesOptions = () => ['sum', 'best'].map((takes) => [takes, t(`takes_${takes}`)]);

// define defines a board. Which fields are shown follows from its kind.
const define = {
  name: 'define',
  initial: () => ({
    kind: 'daily',
    time_zone: 'Asia/Shanghai',
    max_score: '100000',
    order: 'high',
    global: 'users',
    uploads: 'users',
    takes: 'sum',
  }),
  fields: [
    {
      name: 'name',
      text: 'boardName',
      pattern: '[a-z0-9\\-]{1,40}',
      hint: 'boardNameHint',
      autocomplete: 'off',
    },
    {
      name: 'kind',
      options: () => kinds.map((kind) => [kind, t(`kind_${kind}`)]),
      hint: 'kindHint',
    },
    { name: 'max_score', text: 'maxScore', type: 'number', min: 1, hint: 'maxScoreHint' },
    {
      name: 'order',
      options: () => orders.map((order) => [order, t(`order_${order}`)]),
      shown: hasOrder,
    },
    {
      name: 'time_zone',
      text: 'timeZone',
      hint: 'timeZoneHint',
      autocomplete: 'off',
      shown: ({ kind }) => kind !== 'rolling',
    },
    {
      name: 'open_days',
      text: 'openDays',
      type: 'number',
      min: 0,
      max: 30,
      optional: true,
      hint: 'openDaysHint',
      shown: ({ kind }) => kind === 'daily',
    },
    { name: 'takes', options: takesOptions, shown: isEvent },
    { name: 'start', text: 'startsAt', type: 'datetime-local', shown: isEvent },
    { name: 'end', text: 'endsAt', type: 'datetime-local', shown: isEvent },
    {
      name: 'latest_end',
      text: 'latestEnd',
      type: 'datetime-local',
      optional: true,
      hint: 'latestEndHint',
      shown: isEvent,
    },
    { name: 'late', text: 'late', optional: true, hint: 'lateHint', shown: isEvent },
    {
      name: 'window',
      text: 'windowHours',
      type: 'number',
      min: 1,
      max: 168,
      optional: true,
      hint: 'windowHint',
      shown: ({ kind }) => kind === 'rolling',
    },
    {
      name: 'review_above',
      text: 'reviewAbove',
      type: 'number',
      min: 0,
      optional: true,
      hint: 'reviewAboveHint',
      shown: (values) => !ranksLow(values),
    },
    {
      name: 'hold_above',
      text: 'holdAbove',
      type: 'number',
      min: 0,
      optional: true,
      hint: 'holdAboveHint',
      shown: (values) => values.kind === 'daily' && !ranksLow(values),
    },
    { name: 'unit', text: 'unit', optional: true, maxlength: 20, hint: 'unitHint' },
    {
      name: 'global',
      text: 'audience',
      options: audiences,
    },
    {
      name: 'uploads',
      text: 'uploads',
      hint: 'uploadsHint',
      options: audiences,
      shown: ({ kind }) => kind === 'daily',
    },
  ],
  call: (_, values) => {
    const { name, kind, global, max_score: maxScore } = values;
    const daily = kind === 'daily' && {
      open_days: optionalNumber(values.open_days),
      uploads: values.uploads,
    };
    const event = isEvent(values) && {
      takes: values.takes,
      start: instant(values.start),
      end: instant(values.end),
      latest_end: instant(values.latest_end),
      late: values.late,
    };
    const rolling = kind === 'rolling' && { window: optionalNumber(values.window) };
    const body = {
      ...{
        name,
        kind,
        global,
        max_score: Number(maxScore),
        order: hasOrder(values) ? values.order : undefined,
        review_above: ranksLow(values) ? undefined : optionalNumber(values.review_above),
        unit: values.unit,
      },
      ...(kind === 'daily' &&
        !ranksLow(values) && { hold_above: optionalNumber(values.hold_above) }),
      ...(kind !== 'rolling' && { time_zone: values.time_zone }),
      ...{ ...daily, ...event, ...rolling },
    };
    return { method: 'POST', path: '/v1/admin/boards', body: withoutEmpty(body) };
  },
  describe: (board) =>
    t('would_define', {
      name: board.name,
      kind: t(`kind_${board.kind}`),
      max: formatNumber(board.max_score),
      tick: t(`tick_${board.tick_ms}`),
    }),
};

// moveEnd moves the end of an event to a later time.
const moveEnd = {
  name: 'moveEnd',
  initial: (board) => ({ end: localTime(board.current.ends_at) }),
  subject: (board) => board.name,
  fields: [{ name: 'end', text: 'endsAt', type: 'datetime-local', step: 1, hint: 'moveEndHint' }],
  call: ({ name }, { end }) => ({
    method: 'PUT',
    path: `/v1/admin/boards/${name}`,
    body: { end: instant(end) },
  }),
  describe: (board, before) =>
    t('would_moveEnd', {
      before: formatDateTime(before.current.ends_at),
      end: formatDateTime(board.current.ends_at),
      closes: formatDateTime(board.closes_at),
    }),
};

// zoneOf says in which time zone a board has its days.
const zoneOf = ({ time_zone: zone }) =>
  zone === 'local' ? t('ownCalendar') : html`<bdi>${zone}</bdi>`;

// Ending says when an event ends, and when it takes its last increments if that is later; or since
// when it is final.
const Ending = ({ board: { current, closes_at: closes, final } }) => {
  const line = (text, at) => html`<span class="label">${t(text)} ${when(at)}</span>`;
  if (final) return line('isFinal', closes);
  const late = closes !== current.ends_at;
  return html`${line('endsAt', current.ends_at)}${late && line('closesAt', closes)}`;
};

// BoardList shows every board, and defines another one.
function BoardList({ client, notify }) {
  const result = useFetch(client, '/v1/boards', refreshEvery);
  const [button, dialog] = useActions(client, notify, result[1]);
  const card = (board) => html`<li key=${board.name}>
    <a class="card board" href=${`#/boards/${board.name}`}>
      <strong><bdi>${board.name}</bdi></strong>
      <span class="label">${t(`kind_${board.kind}`)} · ${zoneOf(board)}</span>
      <span class="label">${t('upTo', { max: formatNumber(board.max_score) })}</span>
      ${isEvent(board) && html`<${Ending} board=${board} />`}
    </a>
  </li>`;
  return html`<h1 tabindex="-1">${t('boards')}</h1>
    <div class="buttons">${button(define)}</div>
    <${Fetched} result=${result}>
      ${({ boards }) => html`<ul class="boards">
        ${boards.map(card)}
      </ul>`}
    <//>
    ${dialog}`;
}

const weeks = 5;

// monday returns the Monday of a day's week.
function monday(day) {
  const weekday = new Date(`${day}T00:00:00Z`).getUTCDay();
  return addDays(day, -((weekday + 6) % 7));
}

// Day is a day of the calendar. One for which nothing was reported has no bucket.
function Day({ board, day, bucket, latest }) {
  if (day > latest) return html`<td key=${day}></td>`;
  if (!bucket) return html`<td key=${day}><span class="cell none">${formatDay(day)}</span></td>`;
  return html`<td key=${day}>
    <a class=${`cell state-${bucket.state}`} href=${`#/boards/${board}/${day}`}>
      <span>${formatDay(day)}</span>
      <span class="cell-state">${t(`state_${bucket.state}`)}</span>
      <b>${number(bucket.total) ?? '–'}</b>
    </a>
  </td>`;
}

// Calendar shows some weeks of a board's days, up to the week of a day.
function Calendar({ client, board, latest }) {
  const [last, setLast] = useState(latest);
  const first = addDays(monday(last), -7 * (weeks - 1));
  const sunday = addDays(first, 7 * weeks - 1);
  const query = new URLSearchParams({ from: first, to: sunday, limit: 7 * weeks });
  const result = useFetch(client, `/v1/admin/boards/${board}/buckets?${query}`, refreshEvery);
  const days = (week) => [...Array(7).keys()].map((n) => addDays(first, 7 * week + n));
  const show = ({ buckets }) => {
    const byDay = new Map(buckets.map((bucket) => [bucket.date, bucket]));
    // On local days several dates are in progress.
    const newest = buckets[0]?.date > latest ? buckets[0].date : latest;
    const cell = (day) => Day({ board, day, bucket: byDay.get(day), latest: newest });
    const week = (n) => html`<tr key=${n}>${days(n).map(cell)}</tr>`;
    return html`<table class="calendar" aria-label=${t('days')}>
      <thead>
        <tr>
          ${days(0).map((day) => html`<th scope="col" key=${day}>${formatWeekday(day)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${[...Array(weeks).keys()].map(week)}
      </tbody>
    </table>`;
  };
  return html`<${Panel} title=${t('days')}>
      <${Fetched} result=${result}>${show}<//>
      <div class="buttons">
        <button class="button" onClick=${() => setLast(addDays(last, -7 * weeks))}>${t('older')}</button>
        <button
          class="button"
          disabled=${last >= latest}
          onClick=${() => setLast(addDays(last, 7 * weeks))}
        >
          ${t('newer')}
        </button>
      </div>
    <//>
    <p class="label">${t('calendarHint')}</p>`;
}

// timesOf returns when a day or an event begins and ends, as pairs.
const timesOf = ({ starts_at: starts, ends_at: ends, closes_at: closes }) => [
  ['startsAt', when(starts)],
  ['endsAt', when(ends)],
  ['closesAt', when(closes)],
];

// BucketFacts shows a bucket of a board, with what can be done.
function BucketFacts({ client, notify, board, bucket, retry }) {
  const [button, dialog] = useActions(client, notify, retry);
  const { last_run: run } = bucket;
  const revision =
    bucket.revision > 0
      ? html`<a class="link" href=${filterAddress('deliveries', { event: 'board.final' })}>
          ${t('revision', { n: bucket.revision })}
        </a>`
      : null;
  return html`<${Panel}>
      <${Facts}
        pairs=${[
          ['state', html`<${State} value=${bucket.state} />`],
          ['total', number(bucket.total)],
          ['scoreSum', number(bucket.score_sum)],
          ['correctionsHold', number(bucket.corrections)],
          ...(bucket.date ? timesOf(bucket) : []),
          ['coldAt', when(bucket.cold_at)],
          ['lastRun', run && t('runOf', { n: run.run, state: t(`state_${run.state}`) })],
          ['result', revision],
        ]}
      />
      ${run?.error && html`<p class="wrong">${run.error}</p>`}
      <div class="buttons">${button(archive, { board, bucket: bucket.bucket })}</div>
    <//>
    ${dialog}`;
}

// rankingOf is the list of a board's ranking, of a day unless that is empty.
const rankingOf = (board) => ({
  path: `/v1/boards/${board}/top`,
  rows: 'entries',
  forbidden: 'servicesOnly',
  pageSize: 20,
  keyOf: (row) => `${row.rank} ${row.user_id}`,
  columns: [
    ['place', (row) => number(row.rank)],
    ['nickname', (row) => (row.anonymous ? t('anonymous') : html`<bdi>${row.nickname}</bdi>`)],
    ['user', (row) => userLink(row.user_id)],
    ['score', (row) => number(row.score)],
    ['reachedAt', (row) => when(row.reached_at)],
  ],
});

// Ranking shows who is ranked on a board, on a day unless that is undefined.
function Ranking({ client, notify, board, day }) {
  const list = rankingOf(board);
  const filter = day ? { date: day } : {};
  return html`<h2>${t('ranking')}</h2>
    <${PagedRows} ...${{ client, notify, name: 'ranking', list, filter }} />`;
}

// Bucket is the screen of a day, or of the only bucket of a board.
function Bucket({ client, notify, board, day }) {
  const query = isDay(day) ? `?from=${day}&to=${day}&limit=1` : '?limit=1';
  const result = useFetch(client, `/v1/admin/boards/${board}/buckets${query}`, refreshEvery);
  const show = ({ buckets: [bucket] }) =>
    bucket
      ? html`<${BucketFacts} ...${{ client, notify, board, bucket, retry: result[1] }} />
          <${Ranking} ...${{ client, notify, board, day: bucket.date ?? undefined }} />
          <h2>${t('runs')}</h2>
          <${Rows} ...${{ client, notify, name: 'runs', list: runs }} filter=${{ board, bucket: bucket.bucket }} />
          <h2>${t('corrections')}</h2>
          <${Rows}
            ...${{ client, notify, name: 'corrections', list: corrections }}
            filter=${{ board, ...(bucket.date && { date: bucket.date }) }}
          />`
      : html`<${Panel}><${Empty} text="nothingReported" /><//>`;
  return html`<h1 tabindex="-1"><bdi>${board}</bdi>${isDay(day) ? ` · ${day}` : ''}</h1>
    <p><a class="link" href=${isDay(day) ? `#/boards/${board}` : '#/boards'}>${t('back')}</a></p>
    <${Fetched} result=${result}>${show}<//>`;
}

// factsOfEvent returns what only an event has, as pairs.
const factsOfEvent = (board) => [
  ...timesOf(board.current),
  ['takes', t(`takes_${board.takes}`)],
  ['late', board.late],
  ['extendableUntil', board.final ? null : when(board.extendable_until)],
  ['isFinal', t(board.final ? 'yes' : 'no')],
];

// Board is the screen of a board: its definition and its calendar, or its only bucket.
function Board({ client, notify, name }) {
  const path = `/v1/admin/boards/${encodeURIComponent(name)}`;
  const result = useFetch(client, path, refreshEvery);
  const [button, dialog] = useActions(client, notify, result[1]);
  const show = (board) => {
    // A board of local days has no date without the offset of a clock.
    const latest = board.current.date ?? new Date().toISOString().slice(0, 10);
    return html`<${Panel} title=${t('definition')}>
        <${Facts}
          pairs=${[
            ['kind', t(`kind_${board.kind}`)],
            ['timeZone', zoneOf(board)],
            ['maxScore', number(board.max_score)],
            ['order', t(`order_${board.order}`)],
            ['openDays', number(board.open_days)],
            ['windowHours', number(board.window_hours)],
            ...(isEvent(board) ? factsOfEvent(board) : []),
            ['audience', t(`audience_${board.global}`)],
            ['uploads', board.uploads && t(`audience_${board.uploads}`)],
            ['reviewAbove', number(board.review_above)],
            ['holdAbove', number(board.hold_above)],
            ['unit', board.unit ? html`<bdi>${board.unit}</bdi>` : null],
            ['shards', number(board.shards)],
            ['changeStream', t(board.change_stream ? 'yes' : 'no')],
            ['created', when(board.created_at)],
          ]}
        />
        ${
          isEvent(board) &&
          !board.final &&
          html`<div class="buttons">${button(moveEnd, board)}</div>`
        }
      <//>
      ${
        board.kind === 'daily'
          ? html`<${Calendar} ...${{ client, board: name, latest }} />`
          : html`<${OnlyBucket}
              key=${board.current.ends_at}
              ...${{ client, notify, board: name }}
            />`
      }`;
  };
  return html`<h1 tabindex="-1"><bdi>${name}</bdi></h1>
    <p><a class="link" href="#/boards">${t('back')}</a></p>
    <${Fetched} result=${result}>${show}<//>
    ${dialog}`;
}

// OnlyBucket shows the bucket of a board that never has another.
function OnlyBucket({ client, notify, board }) {
  const result = useFetch(client, `/v1/admin/boards/${board}/buckets?limit=1`, refreshEvery);
  return html`<${Fetched} result=${result}>
    ${({ buckets: [bucket] }) =>
      bucket
        ? html`<${BucketFacts} ...${{ client, notify, board, bucket, retry: result[1] }} />
            <${Ranking} ...${{ client, notify, board }} />`
        : html`<${Panel}><${Empty} text="nothingReported" /><//>`}
  <//>`;
}

// Boards is the screen of #/boards, #/boards/steps and #/boards/steps/2026-11-20.
export function Boards({ client, notify, path: [name, day] }) {
  if (!name) return html`<${BoardList} ...${{ client, notify }} />`;
  if (!day) return html`<${Board} ...${{ client, notify, name }} />`;
  return html`<${Bucket} ...${{ client, notify, board: name, day }} />`;
}
