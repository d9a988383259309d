// The rankings of a circle on a past day, and by what several days add up to: a week, a month, or
// the days of a challenge.
import { useFetch } from './data.js';
import { ErrorNotice, Icon, Notice } from './components.js';
import {
  addDays,
  addTexts,
  formatDay,
  formatLongDay,
  formatNumber,
  isDay,
  locale,
  t,
} from './i18n.js';
import {
  DayStrip,
  friendCircle,
  RankingScreen,
  Strip,
  StripSkeleton,
  useLimit,
  whenOfDay,
} from './today.js';
import { texts } from './translations-spans.js';
import { html, useEffect } from './view.js';

addTexts(texts);

// How often a span that is not over is asked for again, in milliseconds.
const interval = 15000;

const midnight = (day) => new Date(`${day}T00:00:00Z`);
const format = (options) => new Intl.DateTimeFormat(locale, { ...options, timeZone: 'UTC' });

// formatRange returns the text of several days, such as Nov 16 – Nov 22.
export const formatRange = (from, to) => `${formatDay(from)} – ${formatDay(to)}`;

const mondayOf = (day) => addDays(day, -((midnight(day).getUTCDay() + 6) % 7));
const firstOfMonth = (day) => `${day.slice(0, 7)}-01`;

// The kinds of spans that one goes through one by one. Each is named by its first day, and
// in addresses by as much of it as is needed.
const kinds = {
  week: {
    length: 8,
    firstOf: mondayOf,
    lastOf: (first) => addDays(first, 6),
    place: (first) => first,
    parse: (place) => (isDay(place) ? mondayOf(place) : null),
    name: (first) => formatRange(first, addDays(first, 6)),
    small: (first) => format({ month: 'short' }).format(midnight(first)),
    large: (first) => `${Number(first.slice(8))}–${Number(addDays(first, 6).slice(8))}`,
  },
  month: {
    length: 6,
    firstOf: firstOfMonth,
    lastOf: (first) => addDays(firstOfMonth(addDays(first, 31)), -1),
    place: (first) => first.slice(0, 7),
    parse: (place) => (isDay(`${place}-01`) ? `${place}-01` : null),
    name: (first) => format({ month: 'long', year: 'numeric' }).format(midnight(first)),
    small: (first) => first.slice(0, 4),
    large: (first) => format({ month: 'short' }).format(midnight(first)),
  },
};

// whenOf returns what When and SpanStrip know of a span.
function whenOf({ period, circle, today, first }) {
  const kind = kinds[period];
  const current = kind.firstOf(today);
  const hrefOf = (day) => {
    const other = kind.firstOf(day);
    return circle.href(period, ...(other === current ? [] : [kind.place(other)]));
  };
  return { today, selected: first, current, hrefOf };
}

function SpanStrip({ period, when }) {
  const kind = kinds[period];
  const { current } = when;
  const item = (other) =>
    other === current
      ? [t(`this_${period}`), kind.large(other), t(`this_${period}`)]
      : [kind.small(other), kind.large(other), kind.name(other)];
  return html`<${Strip}
    label=${t(`per_${period}`)}
    length=${kind.length}
    before=${(other) => kind.firstOf(addDays(other, -1))}
    ...${{ ...when, item }}
  />`;
}

// SpanRanking shows the ranking of a circle from one day to another.
function SpanRanking(props) {
  const { session, circle, header, onError, period, strip, from, to, today, title, when } = props;
  const path = `${circle.path}?from=${from}&to=${to}`;
  const [limit, raiseLimit] = useLimit(path);
  const past = to < today;
  const [result, retry] = useFetch(session.client, `${path}&limit=${limit}`, past ? 0 : interval);
  useEffect(() => {
    if (result.error) onError(result.error);
  }, [result.error]);
  const view = {
    key: `${from} ${to}`,
    title,
    when,
    past,
    noScore: t('noScoreSpan'),
    empty: t('emptySpan'),
  };
  const state = !past && result.state === 'ready' ? 'running' : result.state;
  return html`<${RankingScreen}
    ...${{ session, circle, header, period, view, strip, retry, limit, raiseLimit }}
    result=${{ ...result, state }}
  />`;
}

// Waiting stands for the ranking as long as it is not known which day it is.
function Waiting({ session, circle, header, period, error, retry }) {
  const state = error ? 'error' : 'loading';
  const view = { key: '', title: t(period === 'challenge' ? period : `per_${period}`) };
  return html`<${RankingScreen}
    strip=${html`<${StripSkeleton} />`}
    result=${{ state, error }}
    ...${{ session, circle, header, period, view, retry }}
  />`;
}

// useToday returns [today, error, retry]: the current day of the board. It asks for it if
// the page was opened on another screen than today's.
export function useToday(session, { onToday, onError }) {
  const [{ data, error }, retry] = useFetch(session.client, session.today ? null : '/v1/boards');
  const date = data?.boards.find(({ name }) => name === session.board)?.current.date;
  useEffect(() => {
    if (date) onToday(date);
    else if (data) onError({ code: 'board_not_found' });
  }, [date, data]);
  return [session.today ?? date, error, retry];
}

// Span shows the week or the month of an address: the current one without a place.
function Span({ period, path: [place], ...props }) {
  const { session, circle = friendCircle(session.board) } = props;
  const kind = kinds[period];
  const [today, error, retry] = useToday(session, props);
  if (place && !kind.parse(place)) return html`<${NotFound} />`;
  if (!today) return html`<${Waiting} ...${{ ...props, circle, period, error, retry }} />`;
  const first = place ? kind.parse(place) : kind.firstOf(today);
  const when = whenOf({ period, circle, today, first });
  return html`<${SpanRanking}
    key=${first}
    from=${first}
    to=${kind.lastOf(first)}
    title=${kind.name(first)}
    when=${when}
    strip=${html`<${SpanStrip} ...${{ period, when }} />`}
    ...${{ ...props, circle, period, today }}
  />`;
}

export const Week = (props) => html`<${Span} period="week" ...${props} />`;
export const Month = (props) => html`<${Span} period="month" ...${props} />`;

// daysBetween returns how many days one day is before another.
const daysBetween = (day, other) => Math.round((midnight(other) - midnight(day)) / 864e5);

// monthOf returns the first and the last day of a day's month.
export const monthOf = (day) => ({
  from: firstOfMonth(day),
  to: kinds.month.lastOf(firstOfMonth(day)),
});

// challengeName returns the name of a challenge in the viewer's language. Its days make it.
export function challengeName({ from, to }) {
  const n = daysBetween(from, to) + 1;
  if (n === 2 && midnight(from).getUTCDay() === 6) return t('weekend');
  if (from === firstOfMonth(from) && to === monthOf(from).to) {
    return format({ month: 'long' }).format(midnight(from));
  }
  return t('challengeDays', { n: formatNumber(n), count: n });
}

// challengeTitle returns the title of a challenge, with its name.
export const challengeTitle = (challenge) =>
  t('challengeCalled', { name: challengeName(challenge) });

// DaysPill says how many days are left of a span, or until it begins.
export function DaysPill({ span: { from, to }, today }) {
  if (!today) return null;
  if (today > to) {
    return html`<span class="pill final"><${Icon} name="check" />${t('challengeOver')}</span>`;
  }
  const running = today >= from;
  const n = running ? daysBetween(today, to) + 1 : daysBetween(today, from);
  const text = t(running ? 'daysLeft' : 'beginsIn', { n: formatNumber(n), count: n });
  return html`<span class=${running ? 'pill live' : 'pill slow'}>
    <${Icon} name="clock" />${text}
  </span>`;
}

// AboutChallenge says above a challenge's ranking which days it has.
export function AboutChallenge({ challenge, today }) {
  return html`<div class="about card">
    <span class="emblem event"><${Icon} name="crown" /></span>
    <span class="about-text">
      <b>${challengeTitle(challenge)}</b>
      <span>${formatRange(challenge.from, challenge.to)}</span>
    </span>
    <span class="about-pills"><${DaysPill} span=${challenge} today=${today} /></span>
  </div>`;
}

// Challenge shows the ranking of a group's challenge.
export function Challenge(props) {
  const { session, group, header } = props;
  const [today, error, retry] = useToday(session, props);
  const waiting = html`<${Waiting} ...${{ ...props, period: 'challenge', error, retry }} />`;
  if (!group || (!today && group.challenge)) return waiting;
  const { challenge } = group;
  if (!challenge || challenge.from > today) {
    const key = challenge ? 'challengeAhead' : 'noChallenge';
    return html`${header}
      <section class="card list">
        <${Notice} icon="crown" title=${t(key)} hint=${t(`${key}Hint`)} />
      </section>`;
  }
  const { from, to } = challenge;
  return html`<${SpanRanking}
    key=${`${from} ${to}`}
    title=${formatRange(from, to)}
    ...${{ ...props, period: 'challenge', from, to, today }}
  />`;
}

// NotFound stands for a screen that the address does not name rightly.
const NotFound = () => html`<h1 class="visually-hidden" tabindex="-1">${t('notFound')}</h1>
  <section class="card"><${ErrorNotice} error=${{ status: 404 }} /></section>`;

export function PastDay(props) {
  return isDay(props.path[0]) ? html`<${ValidDay} ...${props} />` : html`<${NotFound} />`;
}

function ValidDay({
  session,
  circle = friendCircle(session.board),
  header,
  path: [day],
  notify,
  onError,
  onToday,
}) {
  const path = `${circle.path}?date=${day}`;
  const [limit, raiseLimit] = useLimit(path);
  const [result, retry] = useFetch(session.client, `${path}&limit=${limit}&include=likes`);
  const [today = day] = useToday(session, { onToday, onError });
  useEffect(() => {
    if (result.error) onError(result.error);
  }, [result.error]);
  const view = {
    key: day,
    title: formatLongDay(day),
    name: formatDay(day),
    when: whenOfDay(circle, today, day),
    past: true,
    noScore: t('noScorePast'),
    empty: t('emptyDay'),
    emptyHint: circle.emptyDay,
  };
  return html`<${RankingScreen}
    period="day"
    strip=${html`<${DayStrip} ...${view.when} />`}
    ...${{ session, circle, header, view, result, retry, limit, raiseLimit, notify }}
  />`;
}
