// The ranking among friends of today and of past days.
import { fetchJSON, useFetch, useLiveRanking } from './data.js';
import {
  AnimatedNumber,
  Avatar,
  avatarHue,
  ErrorNotice,
  errorText,
  Icon,
  Name,
  nameOf,
  Notice,
  sameOrigin,
  Skeleton,
  StaleBanner,
  StatusPill,
  useLater,
} from './components.js';
import {
  addDays,
  formatLongDay,
  formatNumber,
  formatRank,
  formatWeekday,
  isDay,
  rankParts,
  stripBidi,
  t,
  tRich,
} from './i18n.js';
import { RankingList } from './ranking.js';
import { maxLimit, usePages } from './pages.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

const firstLimit = 50;
const maxSteps = 100000;
const stripLength = 14;

// neighbours returns the entries just ahead of and behind the viewer.
function neighbours({ me, entries }) {
  const index = me ? entries.findIndex((entry) => entry.user_id === me.user_id) : -1;
  return index < 0 ? [] : [entries[index - 1], entries[index + 1]];
}

// Goal says how far the next friend is ahead or behind.
function Goal({ ranking, past }) {
  const { me } = ranking;
  const [ahead, behind] = neighbours(ranking);
  const gap = (key, n, user) =>
    tRich(key, {
      n: html`<b>${formatNumber(n)}</b>`,
      unit: t('steps', { count: n }),
      name: html`<${Name} user=${user} />`,
    });
  let text = '';
  if (ahead && past) text = gap('behind', ahead.score - me.score, ahead);
  else if (ahead) text = gap('toPass', Math.max(1, ahead.score - me.score + 1), ahead);
  else if (behind) text = gap('leadBy', me.score - behind.score, behind);
  else if (me.rank === 1) text = t('leadAlone');
  return html`<p class="goal">${text}</p>`;
}

// Champion shows who leads a ranking, on their cover.
function Champion({ ranking }) {
  const { champion, entries, me, final } = ranking;
  const [broken, setBroken] = useState('');
  if (!champion) return null;
  const isMe = champion.user_id === me?.user_id;
  const label = t(`${final ? 'champion' : 'leading'}${isMe ? 'You' : ''}`);
  const cover = sameOrigin(champion.cover_url);
  const first = entries[0]?.user_id === champion.user_id ? entries[0] : null;
  const alt = t('coverOf', { name: stripBidi(nameOf(champion)) });
  return html`<header class="champion" style=${{ '--hue': String(avatarHue(champion.user_id)) }}>
    ${
      cover &&
      cover !== broken &&
      html`<img class="cover" src=${cover} alt=${alt} onError=${() => setBroken(cover)} />`
    }
    <span class="crowned">
      <${Avatar} user=${champion} /><span class="crown"><${Icon} name="crown" /></span>
    </span>
    <span class="champion-text">
      <span class="label">${label}</span><${Name} user=${champion} />
    </span>
    ${first && html`<span class="champion-score">${formatNumber(first.score)}</span>`}
  </header>`;
}

function HeroTop({ ranking, state, past, label, share }) {
  return html`<div class="hero-top">
    <span class="label">${past ? formatLongDay(ranking.date) : label}</span>
    <${StatusPill} state=${state} final=${ranking.final} />
    ${share?.()}
  </div>`;
}

// HeroWithoutScore stands for Hero if the viewer has no score.
function HeroWithoutScore({ ranking, state, past, label, correction }) {
  const { champion } = ranking;
  const title = past ? 'noScorePast' : 'noScore';
  const hint = past ? '' : t('noScoreHint');
  const excluded = correction === 'excluded';
  return html`<section class=${champion ? 'hero quiet' : 'hero quiet bare'}>
    <${Champion} ranking=${ranking} />
    <${HeroTop} ...${{ ranking, state, past, label }} />
    <div>
      ${!champion && html`<${Icon} name="walk" />`}
      <h2>${t(excluded ? 'notRanked' : title)}</h2>
      <p class="goal">${excluded ? t('correction_excluded') : hint}</p>
    </div>
  </section>`;
}

// Hero shows the viewer's rank and score, large.
function Hero({ ranking, state, past, label, correction, share }) {
  const { me, entries, total } = ranking;
  if (!me) return html`<${HeroWithoutScore} ...${{ ranking, state, past, label, correction }} />`;
  const best = entries[0]?.score;
  const outOf = t('outOf', { total: formatNumber(total) });
  const [prefix, rank, suffix] = rankParts(me.rank);
  const scale = best > 0 ? me.score / best : 1;
  return html`<section class="hero" aria-label=${`${formatRank(me.rank)} ${outOf}`}>
    <${Champion} ranking=${ranking} />
    <${HeroTop} ...${{ ranking, state, past, label, share }} />
    <div class="figures">
      <div class="figure">
        <span class="big">
          <small>${prefix}</small><span key=${rank} class="fresh">${rank}</span>
          <small>${suffix}</small>
        </span>
        <span class="label">${outOf}</span>
      </div>
      <div class="figure end">
        <span class="big score-big"><${AnimatedNumber} value=${me.score} /></span>
        <span class="label">${t('steps', { count: me.score })}</span>
      </div>
    </div>
    <div class="bar wide"><span style=${{ transform: `scaleX(${scale})` }}></span></div>
    ${
      correction
        ? html`<p class="goal">${t(`correction_${correction}`)}</p>`
        : html`<${Goal} ranking=${ranking} past=${past} />`
    }
  </section>`;
}

const HeroSkeleton = () => html`<section class="hero quiet ghostly" aria-hidden="true"></section>`;

// DemoActions lets a visitor of the demo walk and give.
function DemoActions({ session, ranking, refresh, notify }) {
  const [busy, setBusy] = useState(false);
  const run = async (action) => {
    setBusy(true);
    try {
      notify(await action());
    } catch (error) {
      notify(errorText(error));
    }
    setBusy(false);
  };
  const walk = async (steps) => {
    const board = `/v1/boards/${session.board}`;
    const before = (await fetchJSON(session.token, `${board}/me`)).score ?? 0;
    const score = Math.min(before + steps, maxSteps);
    if (score === before) return t('stepsFull');
    const body = { date: ranking.date, score };
    await fetchJSON(session.token, `${board}/scores`, { method: 'POST', body });
    await refresh();
    return t('walked', { n: formatNumber(score - before), count: score - before });
  };
  const give = async () => {
    const body = { user_id: session.user.user_id };
    const { coins } = await fetchJSON(session.token, '/demo/gift', { method: 'POST', body });
    return t('gave', { n: formatNumber(coins), count: coins });
  };
  const walkButton = (n) => html`<button
    class="button"
    key=${n}
    disabled=${busy}
    onClick=${() => run(() => walk(n))}
  >
    <${Icon} name="walk" />${t('addSteps', { n: formatNumber(n) })}
  </button>`;
  return html`<section class="actions" aria-label=${t('demo')}>
    <div class="actions-text"><h2>${t('demo')}</h2><p>${t('demoHint')}</p></div>
    <div class="buttons">
      ${[500, 3000].map(walkButton)}
      <button class="button gift" disabled=${busy} onClick=${() => run(give)}>
        <${Icon} name="gift" />${t('gift')}
      </button>
    </div>
  </section>`;
}

// friendCircle returns the circle of the viewer's friends. A circle is people who are
// ranked among themselves: the path of their ranking, texts, and the addresses of its
// days and rows.
const friendCircle = (board) => ({
  path: `/v1/boards/${board}/friends`,
  label: t('amongFriends'),
  emptyDay: t('emptyDayHint'),
  dayHref: (day, today) => (day === today ? '#/' : `#/day/${day}`),
  rowHref: (id) => `#/history/${encodeURIComponent(id)}`,
});

function Day({ day, today, selected, far, circle }) {
  const current = day === selected;
  return html`<a
    class=${far && current ? 'day far' : 'day'}
    href=${circle.dayHref(day, today)}
    aria-current=${current ? 'date' : undefined}
    aria-label=${day === today ? t('today') : formatLongDay(day)}
  >
    <span aria-hidden="true">${day === today ? t('today') : formatWeekday(day)}</span>
    <b aria-hidden="true">${Number(day.slice(8))}</b>
  </a>`;
}

function DatePicker({ today, selected, circle }) {
  const input = useRef(null);
  const open = () => {
    try {
      input.current.showPicker();
    } catch {
      input.current.focus();
    }
  };
  const change = (event) => {
    const day = event.target.value;
    if (day && day <= today) location.hash = circle.dayHref(day, today);
  };
  return html`<div class="picker">
    <button class="round" aria-label=${t('pickDay')} onClick=${open}>
      <${Icon} name="calendar" />
    </button>
    <input
      ref=${input}
      type="date"
      tabindex="-1"
      aria-hidden="true"
      max=${today}
      value=${selected}
      onChange=${change}
    />
  </div>`;
}

// DayStrip links to the last days. A selected day before them comes first.
function DayStrip({ today, selected, circle }) {
  const strip = useRef(null);
  useLayoutEffect(() => {
    const centerSelected = () => {
      const day = strip.current?.querySelector('[aria-current]');
      if (!day) return;
      const margin = (strip.current.clientWidth - day.offsetWidth) / 2;
      strip.current.scrollLeft = day.offsetLeft - margin;
    };
    centerSelected();
    addEventListener('resize', centerSelected);
    return () => removeEventListener('resize', centerSelected);
  }, [today, selected]);
  if (!today) return html`<div class="days" aria-hidden="true"></div>`;
  const days = Array.from({ length: stripLength }, (_, i) => addDays(today, i - stripLength + 1));
  const far = !days.includes(selected);
  if (far) days.unshift(selected);
  const link = (day) => html`<${Day} key=${day} ...${{ day, today, selected, far, circle }} />`;
  return html`<div class="days">
    <nav class="strip" aria-label=${t('day')} ref=${strip}>${days.map(link)}</nav>
    <${DatePicker} ...${{ today, selected, circle }} />
  </div>`;
}

function DayRanking(props) {
  const { session, circle, day, result, retry, limit, raiseLimit, announce, past, after } = props;
  const { data: ranking, state, error } = result;
  const [entries, loadMore, pageError] = usePages(session.token, circle.path, day, ranking);
  if (!ranking) {
    const failed = state === 'offline' || state === 'error';
    return failed ? html`<${ErrorNotice} error=${error} retry=${retry} />` : html`<${Skeleton} />`;
  }
  if (ranking.entries.length === 0) {
    const key = past ? 'emptyDay' : 'emptyToday';
    const hint = past ? circle.emptyDay : t('emptyTodayHint');
    return html`<${Notice} icon="walk" title=${t(key)} hint=${hint} />`;
  }
  const { me, total } = ranking;
  const hrefOf = ({ user_id: id }) => (id === me?.user_id ? '#/history' : circle.rowHref(id));
  const more = limit < maxLimit ? raiseLimit : loadMore;
  return html`<${RankingList}
      label=${circle.label}
      entries=${entries}
      me=${me}
      total=${total}
      unit="steps"
      announce=${past ? null : announce}
      hrefOf=${hrefOf}
      after=${after}
      roomy
    />
    ${pageError && html`<p class="wrong more" role="alert">${errorText(pageError)}</p>`}
    ${loadMore && html`<button class="button more" onClick=${more}>${t('more')}</button>`}`;
}

// useCorrection returns what an operator has made of the viewer's score in a ranking: set,
// excluded, or nothing. It asks once the ranking is there, and again when the score falls
// or goes away, and when a corrected score changes.
function useCorrection({ token, board }, ranking, past) {
  const query = past ? `?date=${ranking?.date}` : '';
  const path = ranking ? `/v1/boards/${board}/me${query}` : null;
  const [{ data }, ask] = useFetch(token, path);
  const score = ranking?.me?.score ?? -1;
  const before = useRef(score);
  useEffect(() => {
    if (score < before.current || (data?.correction && score !== before.current)) ask();
    before.current = score;
  }, [score]);
  return data?.correction;
}

const importDay = () => import('./day.js');

// DayScreen shows the ranking of a circle on a day. The header, if given, has the
// heading of the screen.
function DayScreen(props) {
  const { session, circle, header, today, day, result, refresh, retry, notify, past } = props;
  const { data: ranking, state, error, at } = result;
  const correction = useCorrection(session, ranking, past);
  const { label } = circle;
  const later = useLater(importDay, ranking?.date);
  const [extras, onExtras] = useState({});
  const stale = ranking && (state === 'offline' || state === 'error');
  const title = day && past ? formatLongDay(day) : t('today');
  const hero = ranking
    ? html`<${Hero} ...${{ ranking, state, past, label, correction }} share=${extras.share} />`
    : html`<${HeroSkeleton} />`;
  const showActions = session.people && !past;
  return html`${header ?? html`<h1 class="visually-hidden" tabindex="-1">${title}</h1>`}
    <div class="columns">
      <div class="side">
        ${hero}
        ${showActions && html`<${DemoActions} ...${{ session, ranking, refresh, notify }} />`}
        ${
          later &&
          ranking?.date &&
          html`<${later.DayExtras}
            key=${ranking.date}
            ...${{ session, circle, ranking, past, reload: retry, notify, onExtras }}
          />`
        }
      </div>
      <div class="wide-column">
        <${DayStrip} today=${today} selected=${day ?? today} circle=${circle} />
        ${stale && html`<${StaleBanner} error=${error} at=${at} />`}
        <section
          class=${stale ? 'card list stale' : 'card list'}
          aria-label=${day ? formatLongDay(day) : t('today')}
        >
          <${DayRanking} key=${day} ...${props} after=${extras.after} />
        </section>
      </div>
    </div>`;
}

// Limits of the lists that were shown, so that Back finds a list as long as it was.
const limits = new Map();

function useLimit(key) {
  const [limit, setLimit] = useState(limits.get(key) ?? firstLimit);
  useEffect(() => {
    setLimit(limits.get(key) ?? firstLimit);
  }, [key]);
  const raise = () => {
    limits.set(key, Math.min(maxLimit, limit * 2));
    setLimit(limits.get(key));
  };
  return [limit, raise];
}

export function Today({
  session,
  circle = friendCircle(session.board),
  header,
  notify,
  announce,
  onError,
  onToday,
}) {
  const { token, board } = session;
  const [limit, raiseLimit] = useLimit(circle.path);
  const [result, refresh] = useLiveRanking(token, board, limit, circle.group);
  const date = result.data?.date;
  useEffect(() => {
    if (result.error) onError(result.error);
  }, [result.error]);
  useEffect(() => {
    if (date) onToday(date);
  }, [date]);
  const today = date ?? session.today;
  return html`<${DayScreen}
    day=${today}
    ...${{ session, circle, header, today, result, limit, raiseLimit, refresh, notify, announce }}
  />`;
}

export function PastDay(props) {
  if (isDay(props.path[0])) return html`<${ValidDay} ...${props} />`;
  return html`<h1 class="visually-hidden" tabindex="-1">${t('notFound')}</h1>
    <section class="card"><${ErrorNotice} error=${{ status: 404 }} /></section>`;
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
  const [result, retry] = useFetch(session.token, `${path}&limit=${limit}&include=likes`);
  // The strip of days needs today's date, which is unknown if the page was opened
  // on a past day.
  const [boards] = useFetch(session.token, session.today ? null : '/v1/boards');
  const board = boards.data?.boards.find(({ name }) => name === session.board);
  const date = board?.current.date;
  useEffect(() => {
    if (date) onToday(date);
  }, [date]);
  useEffect(() => {
    if (result.error) onError(result.error);
  }, [result.error]);
  const today = session.today ?? date ?? day;
  return html`<${DayScreen}
    ...${{ session, circle, header, today, day, result, retry, limit, raiseLimit, notify }}
    past
  />`;
}
