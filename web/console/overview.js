// The overview: what needs somebody, and the state of the boards.
import { useFetch } from '../page/data.js';
import { formatDay, formatNumber, t, tRich } from '../page/i18n.js';
import { html, useEffect, useState } from '../page/view.js';
import {
  Fetched,
  formatAge,
  formatAt,
  formatHour,
  number,
  Panel,
  refreshEvery,
  State,
  Table,
  when,
  zone,
} from './parts.js';

// A process that has not reported for this time, in milliseconds, is late: it reports every ten
// seconds.
const lateAfter = 30000;

const jobFails = ({ failed_at: failed, succeeded_at: succeeded }) =>
  failed && !(Date.parse(succeeded) > Date.parse(failed));

// counted is a number of things that need somebody, with the address and the name of what is
// done about them.
const counted = (key, count, href, action) =>
  count > 0 && { key, text: t(`need_${key}`, { count, n: formatNumber(count) }), href, action };

// needsOf returns what needs somebody, worst first: {key, text, href, action}.
function needsOf({ at, stores, degraded, work, processes, jobs }) {
  const store = ({ name }) => ({
    key: name,
    text:
      name === 'redis_memory' ? t('need_memory') : t('need_store', { name: t(`store_${name}`) }),
  });
  const late = ({ id, host, seen_at: seen }) =>
    Date.parse(at) - Date.parse(seen) > lateAfter && {
      key: id,
      text: t('need_process', { host, ago: formatAge(Date.parse(at) - Date.parse(seen)) }),
    };
  const failing = (job) =>
    jobFails(job) && { key: job.name, text: t('need_job', { job: job.name, error: job.error }) };
  return [
    ...stores.filter(({ ok }) => !ok).map(store),
    ...degraded.map((name) => ({ key: `no ${name}`, text: t('need_degraded', { work: name }) })),
    ...(work
      ? [
          counted('runs', work.archive_failed, '#/runs/state=failed', 'archive'),
          counted('deadLetters', work.dead_letters, '#/deadLetters', 'lookAt'),
          counted('deliveries', work.deliveries_failed, '#/deliveries/state=failed', 'send'),
        ]
      : []),
    ...processes.map(late),
    ...jobs.map(failing),
    work && counted('holds', work.holds_open, '#/holds', 'lookAt'),
    work && counted('reviews', work.reviews_open, '#/reviews', 'lookAt'),
  ].filter(Boolean);
}

// underwayOf returns what goes on by itself, if there is any: [text, number, address].
function underwayOf({ work, queue, processes }) {
  const sum = (name) => processes.reduce((total, process) => total + process[name], 0);
  return [
    ['queue', queue?.messages],
    ['archiveDue', work?.archive_due, '#/runs'],
    ['deliveriesWaiting', work?.deliveries_waiting, '#/deliveries/state=waiting'],
    ['correctionsPending', work?.corrections_pending, '#/corrections'],
    ['refused', sum('refused')],
    ['streams', sum('streams')],
  ].filter(([, count]) => count > 0);
}

// Age says how old something is, each second.
function Age({ at }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return t('ago', { time: formatAge(now - at) });
}

// Curve draws the minutes of the last hour over an axis of times, with a line at the bound below which
// the values should stay, if there is one.
function Curve({ title, minutes, valueOf, format, bound }) {
  const values = minutes.map(valueOf);
  const highest = Math.max(...values);
  const last = values.length - 1;
  const top = Math.max(highest, bound ?? 0) || 1;
  const y = (value) => (38 - (36 * value) / top).toFixed(1);
  const points = values.map((value, i) => `${((i * 100) / last).toFixed(1)},${y(value)}`);
  const line = (name, x1, y1, x2, y2) =>
    html`<line class=${name} ...${{ x1, y1, x2, y2 }} vector-effect="non-scaling-stroke" />`;
  const marks = [0, Math.round(last / 2), last];
  return html`<li class="curve">
    <span>${t(title)}</span>
    <strong>${format(values[last])}</strong>
    <svg viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
      ${line('axis', 0, 38, 100, 38)}
      ${marks.map((i) => line('axis', (i * 100) / last, 38, (i * 100) / last, 40))}
      ${bound && line('bound', 0, y(bound), 100, y(bound))}
      <polyline points=${points.join(' ')} vector-effect="non-scaling-stroke" />
    </svg>
    <span class="label between">
      ${marks.map((i) => html`<span>${formatHour(minutes[i].at)}</span>`)}
    </span>
    <span class="label">${t('highest', { value: format(highest) })}</span>
    ${bound && html`<span class="label below">${t('shouldStayBelow', { value: format(bound) })}</span>`}
  </li>`;
}

// formatMS returns milliseconds, shorter ones than ten with a digit behind the point.
const formatMS = (ms) =>
  ms >= 10000
    ? formatAge(ms)
    : `${ms < 10 ? Math.round(ms * 10) / 10 : formatNumber(ms)} ${t('ms')}`;

// The bounds are those of the alert StepboardIngestLag and, where no alert is, those from which the
// dashboard is red: a second, and one refused call a second.
const curves = [
  ['callsAMinute', ({ calls }) => calls, formatNumber],
  ['p99', ({ p99_ms: ms }) => ms, formatMS, 1000],
  ['refusedAMinute', ({ refused }) => refused, formatNumber, 60],
  ['queueAge', ({ queue_ms: ms }) => ms, formatMS, 60000],
];

function LastHour({ hour: { minutes }, grafana }) {
  const curve = ([title, valueOf, format, bound]) =>
    html`<${Curve} key=${title} ...${{ title, minutes, valueOf, format, bound }} />`;
  return html`<${Panel} title=${t('lastHour')}>
    <ul class="tallies curves">
      ${curves.map(curve)}
    </ul>
    <p class="label">${tRich('timesOf', { zone })}</p>
    ${grafana && html`<p><a class="link" href=${grafana} rel="noreferrer">${t('grafana')}</a></p>`}
  <//>`;
}

function Need({ need: { text, href, action } }) {
  return html`<li>
    <span>${text}</span>${href && html`<a class="button small" href=${href}>${t(action)}</a>`}
  </li>`;
}

function Tally({ item: [text, count, href] }) {
  const content = html`<strong>${formatNumber(count)}</strong><span>${t(text)}</span>`;
  return html`<li>
    ${href ? html`<a class="tally" href=${href}>${content}</a>` : html`<div class="tally">${content}</div>`}
  </li>`;
}

// daysUnderway is on how many days of a board of local days people may be at once.
const daysUnderway = 3;

// todayOf returns the bucket in progress in which most people have a score. It is the newest bucket
// if none is in progress, as nobody has a score today.
function todayOf(buckets) {
  const now = Date.now();
  const underway = buckets.filter(
    ({ starts_at: start, ends_at: end }) => Date.parse(start) <= now && now < Date.parse(end),
  );
  return underway.sort((a, b) => b.total - a.total)[0] ?? buckets[0];
}

// BoardToday shows the bucket of a board that is in progress.
function BoardToday({ client, board }) {
  const { name } = board;
  const [{ data }] = useFetch(
    client,
    `/v1/admin/boards/${name}/buckets?limit=${daysUnderway}`,
    6 * refreshEvery,
  );
  const bucket = data && todayOf(data.buckets);
  const day = bucket?.date;
  return html`<li>
    <a class="tally" href=${day ? `#/boards/${name}/${day}` : `#/boards/${name}`}>
      <strong>${number(bucket?.total) ?? '–'}</strong>
      <span><bdi>${name}</bdi></span>
      <span class="label">
        ${day && `${formatDay(day)} · `}${bucket ? t(`state_${bucket.state}`) : t(`kind_${board.kind}`)}
      </span>
    </a>
  </li>`;
}

// shownBoards is of how many boards the overview shows today: each is a call of its own.
const shownBoards = 8;

function BoardsToday({ client }) {
  const [{ data }] = useFetch(client, '/v1/boards', 6 * refreshEvery);
  const board = (definition) =>
    html`<${BoardToday} key=${definition.name} client=${client} board=${definition} />`;
  return html`<${Panel} title=${t('boardsToday')}>
    <ul class="tallies">
      ${data?.boards.slice(0, shownBoards).map(board)}
    </ul>
    <p class="label">${t('boardsTodayHint')} <a class="link" href="#/boards">${t('allBoards')}</a></p>
  <//>`;
}

const processColumns = [
  ['host', (row) => row.host],
  ['version', (row) => row.version],
  ['roles', (row) => row.roles.join(', ')],
  ['started', (row) => when(row.started_at)],
  ['seen', (row) => when(row.seen_at)],
  ['streams', (row) => number(row.streams)],
  ['refused', (row) => number(row.refused)],
];

const jobColumns = [
  ['job', (row) => row.name],
  ['state', (row) => html`<${State} value=${jobFails(row) ? 'failed' : null} />`],
  ['started', (row) => when(row.started_at)],
  ['lastSuccess', (row) => when(row.succeeded_at)],
  ['lastFailure', (row) => when(row.failed_at)],
  ['error', (row) => row.error],
];

// Processes has every process and job, for those who look for them.
function Processes({ processes, jobs, version }) {
  const summary = t('processesAndJobs', { processes: processes.length, jobs: jobs.length });
  return html`<details class="card panel">
    <summary>${summary}</summary>
    <${Table}
      label=${t('processes')}
      columns=${processColumns}
      rows=${processes}
      keyOf=${({ id }) => id}
    />
    <${Table} label=${t('jobs')} columns=${jobColumns} rows=${jobs} keyOf=${({ name }) => name} />
    <p class="label">${t('servedBy', { version })}</p>
  </details>`;
}

export function Overview({ client, status }) {
  const [{ data, error, at }] = status;
  const needs = data ? needsOf(data) : [];
  const sentence = () => {
    if (error) return t('notAnswering');
    if (!data) return t('overview');
    return needs.length > 0 ? t('needs', { count: needs.length }) : t('allWell');
  };
  const show = (state) => html`
    <p class="label clock"><${Age} at=${at} /> · ${formatAt(state.at)}</p>
    ${
      needs.length > 0 &&
      html`<ul class="card needs" aria-label=${t('waits')}>
        ${needs.map((need) => html`<${Need} key=${need.key} need=${need} />`)}
      </ul>`
    }
    ${!state.work && html`<p class="hint">${t('unknown')}</p>`}
    <${Underway} items=${underwayOf(state)} />
    ${state.last_hour && html`<${LastHour} hour=${state.last_hour} grafana=${state.grafana_url} />`}
    <${BoardsToday} client=${client} />
    <${Processes} ...${state} />
  `;
  return html`<h1 tabindex="-1">${sentence()}</h1>
    <${Fetched} result=${status}>${show}<//>`;
}

function Underway({ items }) {
  return (
    items.length > 0 &&
    html`<${Panel} title=${t('underway')}>
      <ul class="tallies">
        ${items.map((item) => html`<${Tally} key=${item[0]} item=${item} />`)}
      </ul>
    <//>`
  );
}
