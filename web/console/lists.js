// The lists of the console: what each shows, how it is filtered, and what can be done.
import { formatNumber, isDay, t, tRich } from '../page/i18n.js';
import { html } from '../page/view.js';
import { correct } from './correct.js';
import { LastDays } from './days.js';
import { boardLink, dayLink, dayOf, number, person, personText, State, when } from './parts.js';

const path = '/v1/admin';

// Columns of a field of the rows.
const time = (name) => ['time', (row) => when(row[name])];
const plain = (name, text = name) => [text, (row) => row[name]];
const numeric = (name, text = name) => [text, (row) => number(row[name])];
const state = ['state', (row) => html`<${State} value=${row.state} />`];
const user = ['user', person];
const board = ['board', (row) => boardLink(row.board)];
// bucketLink leads to the bucket of a row, if it is a day.
const bucketLink = ({ board: of, bucket: name }) => {
  const day = name && dayOf(name);
  return isDay(day ?? '') ? dayLink(of, day) : day;
};
const bucket = ['bucket', bucketLink];

const boardFilter = { name: 'board', boards: true };
const userFilter = { name: 'user_id', text: 'user' };

// filterAddress leads to a list with a filter.
export const filterAddress = (list, filter) =>
  `#/${list}/${encodeURIComponent(new URLSearchParams(filter))}`;

// sameReason leads to the dead letters of one reason.
const sameReason = ({ reason }) =>
  html`<a class="link" href=${filterAddress('deadLetters', { reason })}>${reason}</a>`;

// handleLetter handles one dead letter.
const handleLetter = (name, method, suffix) => ({
  name,
  many: true,
  danger: method === 'DELETE',
  subject: (row) => [personText(row), `#${row.id}: ${row.reason}`].filter(Boolean).join(' · '),
  call: (row) => ({ method, path: `${path}/dead-letters/${row.id}${suffix}` }),
  describe: () => t(`would_${name}`),
});

// handleLetters handles every dead letter of a filter, up to the newest one that is shown.
const handleLetters = (name, verb) => {
  const request = (filter, through, reason) => ({
    method: 'POST',
    path: `${path}/dead-letters/${verb}`,
    body: { filter, through, reason },
  });
  return {
    name,
    danger: verb === 'delete',
    reason: 'optional',
    subject: ({ filter }) => Object.values(filter).join(' · ') || t('all'),
    call: ({ filter, rows }, { reason }) => request(filter, rows[0].id, reason),
    describe: ({ done, failed, next_through: next }) =>
      t(next ? 'wouldHandleFirst' : 'wouldHandle', { done: formatNumber(done), failed }),
    next: (answer, { filter }, { reason }) =>
      answer.next_through && request(filter, answer.next_through, reason),
  };
};

const deadLetters = {
  path: `${path}/dead-letters`,
  rows: 'dead_letters',
  filters: [boardFilter, { name: 'bucket', placeholder: '20261120' }, { name: 'reason' }],
  columns: [
    time('failed_at'),
    ['reason', sameReason],
    board,
    bucket,
    user,
    numeric('score'),
    plain('payload'),
  ],
  actions: [handleLetter('replay', 'POST', '/replay'), handleLetter('remove', 'DELETE', '')],
  together: [handleLetters('replayAll', 'replay'), handleLetters('removeAll', 'delete')],
};

const deliveries = {
  path: `${path}/webhooks/deliveries`,
  rows: 'deliveries',
  initial: { state: 'undelivered' },
  filters: [
    { name: 'state', options: ['undelivered', 'failed', 'waiting', 'delivered', 'dropped'] },
    {
      name: 'event',
      plain: true,
      options: [
        'friend.requested',
        'friend.accepted',
        'like.given',
        'board.final',
        'competition.final',
        'digest.ready',
        'rank.passed',
      ],
    },
    { name: 'target', placeholder: 'https://' },
  ],
  columns: [
    time('created_at'),
    plain('event'),
    state,
    plain('target'),
    numeric('attempts'),
    ['error', (row) => row.last_attempts.at(-1)?.error],
  ],
  actions: [
    {
      name: 'send',
      many: true,
      subject: (row) => `${row.event} · ${row.webhook_id}`,
      call: (row) => ({ method: 'POST', path: `${path}/webhooks/deliveries/${row.id}/replay` }),
      describe: (answer) => t('would_send', answer),
    },
  ],
};

export const lift = {
  name: 'lift',
  many: true,
  reason: 'required',
  offered: (row) => !row.lifted_at,
  subject: (row) =>
    [personText(row), row.board, row.date ?? row.first_date].filter(Boolean).join(' · '),
  call: (row, { reason }) => ({
    method: 'POST',
    path: `${path}/corrections/${row.id}/lift`,
    body: { reason },
  }),
  describe: ({ state: after }) => t(after === 'pending' ? 'would_lift_pending' : 'would_lift'),
};

// correctedDay returns the day of a correction, or the first one.
const correctedDay = ({ board: of, date, first_date: first }) =>
  date ? dayLink(of, date) : first && tRich('fromDay', { day: dayLink(of, first) });

export const corrections = {
  path: `${path}/corrections`,
  rows: 'corrections',
  filters: [
    boardFilter,
    userFilter,
    { name: 'date', text: 'day', type: 'date' },
    { name: 'active', check: true },
  ],
  columns: [
    time('created_at'),
    user,
    board,
    ['day', correctedDay],
    ['kind', (row) => t(`kind_${row.kind}`)],
    numeric('before'),
    numeric('score', 'scoreNow'),
    state,
    plain('reason'),
    plain('message'),
    plain('actor'),
    ['lifted', (row) => row.lifted_at && [when(row.lifted_at), ` ${row.lift_reason}`]],
  ],
  actions: [lift],
};

export const reviews = {
  path: `${path}/reviews`,
  rows: 'reviews',
  filters: [boardFilter, userFilter],
  columns: [
    time('first_seen_at'),
    user,
    board,
    ['day', (row) => dayLink(row.board, row.date)],
    numeric('score'),
  ],
  actions: [
    { ...correct, text: 'correctIt', offered: (row) => row.user_id },
    {
      name: 'dismiss',
      many: true,
      reason: 'optional',
      subject: (row) => `${personText(row)} · ${formatNumber(row.score)}`,
      call: (row, { reason }) => ({
        method: 'POST',
        path: `${path}/reviews/${row.id}/dismiss`,
        body: { reason, score: row.score },
      }),
      describe: () => t('would_dismiss'),
    },
  ],
};

// decideHold releases or rejects a held total.
const decideHold = (name, offered, danger) => ({
  name,
  offered,
  danger,
  reason: 'required',
  subject: (row) => `${personText(row)} · ${row.date} · ${formatNumber(row.score)}`,
  fields: [
    { name: 'days', component: LastDays },
    { name: 'message', text: 'userMessage', maxlength: 200, optional: true },
  ],
  call: (row, { reason, message }) => ({
    method: 'POST',
    path: `${path}/holds/${row.id}/${name}`,
    body: { reason, score: row.score, message },
  }),
  describe: ({ counting }) => t(`would_${name}`, { counting: number(counting) ?? t('noScoreYet') }),
});

const holds = {
  path: `${path}/holds`,
  rows: 'holds',
  initial: { state: 'open' },
  filters: [
    { name: 'state', options: ['open', 'rejected', 'released'], always: true },
    boardFilter,
    userFilter,
  ],
  columns: [
    time('held_at'),
    user,
    board,
    ['day', (row) => dayLink(row.board, row.date)],
    numeric('score', 'heldScore'),
    numeric('counting'),
    ['state', (row) => html`<${State} value=${row.pending ? 'pending' : row.state} />`],
    plain('reason'),
    plain('decided_by', 'actor'),
  ],
  actions: [
    decideHold('release', ({ state: now }) => now !== 'released'),
    decideHold('reject', ({ state: now }) => now === 'open', true),
  ],
};

export const archive = {
  name: 'archive',
  many: true,
  subject: (row) => `${row.board} · ${dayOf(row.bucket)}`,
  call: (row) => ({
    method: 'POST',
    path: `${path}/archives`,
    body: { board: row.board, bucket: dayOf(row.bucket) },
  }),
  describe: ({ state: after, run }) =>
    after === 'complete' ? t('would_archive_nothing') : t('would_archive', { run }),
};

export const runs = {
  path: `${path}/archives`,
  rows: 'runs',
  keyOf: (row) => `${row.board} ${row.bucket} ${row.run}`,
  filters: [
    boardFilter,
    { name: 'bucket', placeholder: '20261120' },
    { name: 'state', options: ['running', 'failed', 'complete'] },
  ],
  columns: [
    time('started_at'),
    board,
    bucket,
    numeric('run'),
    state,
    numeric('attempts'),
    numeric('moved'),
    numeric('entries'),
    plain('error'),
  ],
  actions: [{ ...archive, offered: (row) => row.state !== 'running' }],
};

const erasures = {
  path: `${path}/erasures`,
  rows: 'erasures',
  filters: [],
  columns: [
    time('begun_at'),
    plain('id'),
    user,
    numeric('sweeps'),
    numeric('removed'),
    ['finished', (row) => when(row.finished_at)],
  ],
};

const audit = {
  path: `${path}/audit`,
  rows: 'entries',
  filters: [{ name: 'actor' }, { name: 'action' }, userFilter],
  columns: [
    time('at'),
    plain('actor'),
    plain('action'),
    board,
    bucket,
    user,
    plain('target', 'subject'),
    plain('reason'),
    plain('outcome'),
    plain('request_id', 'request'),
  ],
};

// lists are the lists by the first part of their address.
export const lists = {
  deadLetters,
  deliveries,
  corrections,
  reviews,
  holds,
  runs,
  erasures,
  audit,
};
