// The ranking of a circle of people today, and the screen of all of its rankings.
import { longestPage, tryAgain, useFetch, useLiveRanking, usePages } from './data.js';
import {
  AnimatedNumber,
  Avatar,
  ErrorNotice,
  errorText,
  Icon,
  Name,
  nameOf,
  Notice,
  sameOrigin,
  SegmentedControl,
  Skeleton,
  StatusPill,
  useLater,
  useTitle,
} from './components.js';
import {
  addDays,
  formatLongDay,
  formatNumber,
  formatRank,
  formatTime,
  formatWeekday,
  rankParts,
  stripBidi,
  t,
  tRich,
  unitOf,
} from './i18n.js';
import { KeptRanking, useKept } from './offline.js';
import { RankingList } from './ranking.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

const firstLimit = 50;
const stripLength = 14;

// neighbours returns the entries just ahead of and behind the viewer.
function neighbours({ me, entries }) {
  const index = me ? entries.findIndex((entry) => entry.user_id === me.user_id) : -1;
  return index < 0 ? [] : [entries[index - 1], entries[index + 1]];
}

// Goal says how far the next one is ahead or behind.
function Goal({ ranking, past, unit, low }) {
  const { me } = ranking;
  const [ahead, behind] = neighbours(ranking);
  const gap = (key, n, user) =>
    tRich(key, {
      n: html`<b>${formatNumber(n)}</b>`,
      unit: unitOf(unit, n),
      name: html`<${Name} user=${user} />`,
    });
  const apart = (other) => Math.abs(other.score - me.score);
  let text = '';
  if (ahead && (past || low)) text = gap('behind', apart(ahead), ahead);
  else if (ahead) text = gap('toPass', apart(ahead) + 1, ahead);
  else if (behind) text = gap('leadBy', apart(behind), behind);
  else if (me.rank === 1) text = t('leadAlone');
  return html`<p class="goal">${text}</p>`;
}

// Champion shows who leads a ranking. Their cover fills the hero around it.
function Champion({ ranking }) {
  const { champion, entries, me, final } = ranking;
  const [broken, setBroken] = useState('');
  if (!champion) return null;
  const isMe = champion.user_id === me?.user_id;
  const label = t(`${final ? 'champion' : 'leading'}${isMe ? 'You' : ''}`);
  const cover = sameOrigin(champion.cover_url);
  const first = entries[0]?.user_id === champion.user_id ? entries[0] : null;
  const alt = t('coverOf', { name: stripBidi(nameOf(champion)) });
  return html`<header class="champion">
    ${
      cover &&
      cover !== broken &&
      html`<img class="cover" src=${cover} alt=${alt} onError=${() => setBroken(cover)} />`
    }
    <span class="crowned">
      <${Avatar} user=${champion} size="small" /><span class="crown"><${Icon} name="crown" /></span>
    </span>
    <span class="champion-text">
      <span class="label">${label}</span><${Name} user=${champion} />
    </span>
    ${first && html`<span class="champion-score">${formatNumber(first.score)}</span>`}
  </header>`;
}

// HeroNote is the line at the foot of the hero: how old the ranking is if the connection is lost,
// what an operator has changed, or else its children. It is always there, so that no text moves the list.
function HeroNote({ stale, correction, children }) {
  if (stale) {
    return html`<div class="goal banner">
      <p role="status">${t('stale', { time: formatTime(stale.at) })}</p>
      <button class="button" onClick=${tryAgain}>${t('retry')}</button>
    </div>`;
  }
  return correction ? html`<p class="goal">${t(`correction_${correction}`)}</p>` : children;
}

// HeroWithoutScore stands for Hero if the viewer has no score.
function HeroWithoutScore({ ranking, state, view, correction, stale, aim }) {
  const { champion } = ranking;
  const excluded = correction === 'excluded';
  return html`<section class=${champion ? 'hero quiet' : 'hero quiet bare'}>
    <${Champion} ranking=${ranking} />
    <div class="figures">
      <h2>${excluded ? t('notRanked') : view.noScore}</h2>
      <${StatusPill} state=${state} final=${ranking.final} />
      ${aim}
    </div>
    <${HeroNote} stale=${stale} correction=${excluded && correction}>
      <p class="goal">${view.noScoreHint}</p>
    <//>
  </section>`;
}

// Hero shows the viewer's rank and score, large.
function Hero({ ranking, circle, state, view, correction, stale, extras }) {
  const { me, entries, total } = ranking;
  const aim =
    ranking.date && !view.past && (extras.aim?.(me?.score ?? 0) || html`<span class="aim"></span>`);
  if (!me)
    return html`<${HeroWithoutScore} ...${{ ranking, state, view, correction, stale, aim }} />`;
  const best = entries[0]?.score;
  const outOf = t('outOf', { total: formatNumber(total) });
  const [prefix, rank, suffix] = rankParts(me.rank);
  // The bar of today is as long as the part of the goal that is reached; others are as in the list.
  const whole = aim && !extras.low ? extras.goal : best;
  const scale =
    whole > 0 ? Math.min(1, extras.low ? whole / me.score : me.score / whole) : Number(!aim);
  return html`<section class="hero" aria-label=${`${formatRank(me.rank)} ${outOf} ${circle.among}`}>
    <${Champion} ranking=${ranking} />
    ${extras.share?.()}
    <div class="figures">
      <span class="big">
        <small>${prefix}</small><span key=${rank} class="fresh">${rank}</span>
        <small>${suffix}</small>
      </span>
      <span class="figures-text">
        <span class="label">${outOf} ${extras.moved?.()}</span>
        <span class="label">${circle.among}</span>
        <${StatusPill} state=${state} final=${ranking.final} />
      </span>
      <span class="own-score">
        <span class="big score-big"><${AnimatedNumber} value=${me.score} /></span>
        ${extras.why?.()}
        ${aim}
      </span>
    </div>
    <div class="bar wide"><span style=${{ transform: `scaleX(${scale})` }}></span></div>
    <${HeroNote} stale=${stale} correction=${correction}>
      <${Goal} ranking=${ranking} past=${view.past} unit=${extras.unit || 'steps'} low=${extras.low} />
    <//>
  </section>`;
}

const HeroSkeleton = () => html`<section class="hero quiet ghostly" aria-hidden="true"></section>`;

// friendCircle returns the circle of the viewer's friends. A circle is people who are
// ranked among themselves: the path of their ranking, texts (among says it within a sentence), and
// the addresses of its screens and rows. href() is that of today, and href('day', …) that of a past day.
export const friendCircle = (board) => ({
  path: `/v1/boards/${board}/friends`,
  label: t('amongFriends'),
  among: t('amongFriendsShort'),
  emptyDay: t('emptyDayHint'),
  href: (...parts) => `#/${parts.join('/')}`,
  rowHref: (id) => `#/history/${encodeURIComponent(id)}`,
});

function DatePicker({ today, selected, hrefOf }) {
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
    if (day && day <= today) location.hash = hrefOf(day);
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

// Strip links to as many periods as length, up to the current one, each named by its first day, and the
// selected one. before(first) returns the one before another, item(first) what a link shows: [small text,
// large text, name], hrefOf(day) the address of a day's period.
export function Strip({ label, length, current, before, item, today, selected, hrefOf }) {
  const strip = useRef(null);
  useLayoutEffect(() => {
    const centerSelected = () => {
      const link = strip.current.querySelector('[aria-current]');
      if (!link) return;
      const margin = (strip.current.clientWidth - link.offsetWidth) / 2;
      strip.current.scrollLeft = link.offsetLeft - margin;
    };
    centerSelected();
    addEventListener('resize', centerSelected);
    return () => removeEventListener('resize', centerSelected);
  }, [current, selected]);
  const periods = [current];
  while (periods.length < length) periods.unshift(before(periods[0]));
  const far = !periods.includes(selected);
  if (far) periods.unshift(selected);
  const link = (first) => {
    const isSelected = first === selected;
    const [small, large, name] = item(first);
    return html`<a
      key=${first}
      class=${far && isSelected ? 'day far' : 'day'}
      href=${hrefOf(first)}
      aria-current=${isSelected ? 'date' : undefined}
    >
      <span class="visually-hidden">${name}</span>
      <span aria-hidden="true">${small}</span>
      <b aria-hidden="true">${large}</b>
    </a>`;
  };
  return html`<div class="days">
    <nav class="strip" aria-label=${label} ref=${strip}>${periods.map(link)}</nav>
    <${DatePicker} ...${{ today, selected, hrefOf }} />
  </div>`;
}

// When is the period of a ranking, laid over the upper bar of a phone, where there is no room for a strip.
// With large letters it has a list of the kinds of periods, too, in place of the segments.
function When({ view: { when, name, title }, options, period, choose }) {
  const { today, selected, hrefOf, current } = when ?? {};
  const option = ([key, text]) => html`<option key=${key} value=${key} selected=${key === period}>
    ${text}
  </option>`;
  const isNow = selected === current;
  return html`<div class="period-bar">
    <select aria-label=${t('period')} onChange=${(event) => choose(event.target.value)}>
      ${options.map(option)}
    </select>
    <span class=${isNow ? 'name period-name now' : 'name period-name'} aria-hidden="true">${name ?? title}</span>
    ${when && html`<${DatePicker} ...${{ today, selected, hrefOf }} />`}
    ${when && !isNow && html`<a class="to-now" href=${hrefOf(today)}>${t('today')}</a>`}
  </div>`;
}

export const StripSkeleton = () => html`<div class="days" aria-hidden="true"></div>`;

// whenOfDay returns what When and DayStrip know of a day.
export const whenOfDay = (circle, today, selected) =>
  today && {
    ...{ today, selected, current: today },
    hrefOf: (day) => circle.href(...(day === today ? [] : ['day', day])),
  };

export function DayStrip({ today, selected, hrefOf }) {
  if (!today) return html`<${StripSkeleton} />`;
  const item = (day) => {
    const isToday = day === today;
    const small = isToday ? t('today') : formatWeekday(day);
    return [small, Number(day.slice(8)), isToday ? small : formatLongDay(day)];
  };
  return html`<${Strip}
    label=${t('day')}
    length=${stripLength}
    current=${today}
    before=${(day) => addDays(day, -1)}
    ...${{ item, today, selected, hrefOf }}
  />`;
}

// periodsOf returns {options, choose, period}, to choose between the rankings of a day, a week, a month
// and a group's challenge. A board that is low has the days only.
function periodsOf(circle, period, low) {
  const all = ['day', 'week', 'month', circle.challenge && 'challenge'].filter(Boolean);
  const keys = low ? ['day'] : all;
  const options = keys.map((key) => [key, t(`per_${key}`)]);
  const choose = (key) => {
    location.hash = circle.href(...(key === 'day' ? [] : [key]));
  };
  return { options, choose, period };
}

function Ranking(props) {
  const { session, circle, view, result, retry, limit, raiseLimit, announce } = props;
  const { after, absent, unit = 'steps' } = props;
  const { data: ranking, state, error } = result;
  const [entries, loadMore, pageError] = usePages(session.client, circle.path, view.key, ranking);
  if (!ranking) {
    const failed = state === 'offline' || state === 'error';
    return failed ? html`<${ErrorNotice} error=${error} retry=${retry} />` : html`<${Skeleton} />`;
  }
  const { me, total } = ranking;
  const invite = !circle.group &&
    !view.past && {
      action: t('inviteAction'),
      onAction: () => {
        location.hash = '#/friends';
      },
    };
  if (ranking.entries.length === 0) {
    return html`<${Notice} icon="walk" title=${view.empty} hint=${view.emptyHint} ...${invite} />
      ${absent?.()}`;
  }
  const hrefOf = ({ user_id: id }) => (id === me?.user_id ? '#/history' : circle.rowHref(id));
  const more = limit < longestPage ? raiseLimit : loadMore;
  return html`<${RankingList}
      label=${circle.label}
      entries=${entries}
      me=${me}
      total=${total}
      unit=${unit}
      announce=${announce}
      hrefOf=${hrefOf}
      after=${after}
      roomy=${Boolean(ranking.date)}
    />
    ${me && total === 1 && invite && html`<${Notice} icon="friends" title=${t('alone')} ...${invite} />`}
    ${pageError && html`<p class="wrong more" role="alert">${errorText(pageError)}</p>`}
    ${loadMore ? html`<button class="button more" onClick=${more}>${t('more')}</button>` : absent?.()}`;
}

// useStanding returns what operators have to do with the viewer's score in a ranking: correction, which is
// set, excluded or nothing, and held; neither for the sums of several days. It asks once the ranking is there,
// and again when the score falls or goes away, and when such a score changes.
function useStanding({ client, board }, ranking, past) {
  const query = past ? `?date=${ranking?.date}` : '';
  const path = ranking?.date ? `/v1/boards/${board}/me${query}` : null;
  const [{ data }, ask] = useFetch(client, path);
  const score = ranking?.me?.score ?? -1;
  const before = useRef(score);
  useEffect(() => {
    if (score < before.current || ((data?.correction || data?.held) && score !== before.current))
      ask();
    before.current = score;
  }, [score]);
  return data ?? {};
}

const importDay = () => import('./day.js');
const importDemo = () => import('./demo.js');

// RankingScreen shows a ranking of a circle in a period: day, week, month, or the one of a
// challenge. view has what differs between days and spans: a key, the title, whether it is
// past, and texts for a viewer without a score and for an empty ranking. The header, if given, has
// the heading of the screen. refresh is given for today alone, and at, a user id and a day, if a
// notification has led here.
export function RankingScreen(props) {
  const { session, circle, header, period, view, strip, result, refresh, retry, notify } = props;
  const { at, limit, raiseLimit } = props;
  const { data: ranking, state } = result;
  const { correction, held } = useStanding(session, ranking, view.past);
  const later = useLater(importDay, ranking?.date);
  const [extras, onExtras] = useState({});
  const stale = ranking && (state === 'offline' || state === 'error');
  const periods = periodsOf(circle, period, extras.low);
  const hero = ranking
    ? html`<${Hero} ...${{ ranking, circle, state, view, correction }} stale=${stale && result} extras=${extras} />`
    : html`<${HeroSkeleton} />`;
  const demo = useLater(importDemo, session.people && refresh && ranking);
  useTitle((view.past || period !== 'day') && view.title);
  return html`${header ?? html`<h1 class="visually-hidden" tabindex="-1">${view.title}</h1>`}
    <${When} view=${view} ...${periods} />
    <div class="columns">
      <div class="side">
        <${SegmentedControl}
          label=${t('period')}
          value=${period}
          options=${periods.options}
          onChange=${periods.choose}
        />
        ${hero}
        ${demo && refresh && html`<${demo.DemoActions} ...${{ session, ranking, refresh, notify }} />`}
        ${
          later &&
          ranking?.date &&
          html`<${later.DayExtras}
            ...${{ session, circle, ranking, refresh, reload: retry, notify, onExtras, at, limit, raiseLimit, held }}
            past=${view.past}
          />`
        }
      </div>
      <div class="wide-column">
        ${strip}
        <section class=${stale ? 'card list stale' : 'card list'} aria-label=${view.title}>
          <${Ranking} key=${view.key} ...${props} ...${extras} />
        </section>
      </div>
    </div>`;
}

// Limits of the lists that were shown, so that Back finds a list as long as it was.
const limits = new Map();

export function useLimit(key) {
  const [limit, setLimit] = useState(limits.get(key) ?? firstLimit);
  useEffect(() => {
    setLimit(limits.get(key) ?? firstLimit);
  }, [key]);
  const raise = () => {
    limits.set(key, Math.min(longestPage, limit * 2));
    setLimit(limits.get(key));
  };
  return [limit, raise];
}

export function Today({
  session,
  path,
  circle = friendCircle(session.board),
  header,
  notify,
  announce,
  onError,
  onToday,
}) {
  const { client, board } = session;
  const [limit, raiseLimit] = useLimit(circle.path);
  const [live, refresh] = useLiveRanking(client, {
    board,
    group: circle.group,
    limit,
    include: 'likes',
    onPassed: (passed) =>
      import('./passed.js').then(
        ({ sentenceOf }) => notify(sentenceOf(passed)),
        () => {}, // the list shows it
      ),
  });
  const result = useKept(session, circle.group, live);
  const date = result.data?.date;
  useEffect(() => {
    if (result.error) onError(result.error);
  }, [result.error]);
  useEffect(() => {
    if (date) onToday(date);
  }, [date]);
  if (result.old && live.state === 'offline') return html`<${KeptRanking} kept=${result.old} />`;
  const today = date ?? session.today;
  const view = {
    key: today,
    title: t('today'),
    when: whenOfDay(circle, today, today),
    noScore: t('noScore'),
    noScoreHint: t('noScoreHint'),
    empty: t('emptyToday'),
    emptyHint: t('emptyTodayHint'),
  };
  return html`<${RankingScreen}
    period="day"
    strip=${html`<${DayStrip} ...${view.when} />`}
    ...${{ session, circle, header, view, result, limit, raiseLimit, refresh, notify, announce }}
    at=${path}
  />`;
}
