// Today's ranking among friends, and that of any past day.
import { call } from './api.js';
import { DayStrip } from './days.js';
import { clockTime, longDay, number, parts, place, placeText, t } from './i18n.js';
import { useCall, useLive } from './stream.js';
import { Avatar, Icon, Name, Notice, Rolling, Skeleton, Status, Trouble } from './components.js';
import { RankingList } from './ranking.js';
import { html, useEffect, useState } from './view.js';

const pageSize = 50;
const maxPage = 200;

// rivals finds who is next ahead and who is next behind in what is shown.
function rivals({ me, entries }) {
  const at = me ? entries.findIndex((entry) => entry.user_id === me.user_id) : -1;
  return at < 0 ? [] : [entries[at - 1], entries[at + 1]];
}

function Goal({ ranking, unit, past }) {
  const { me } = ranking;
  const [ahead, behind] = rivals(ranking);
  if (ahead) {
    const gap = past ? ahead.score - me.score : Math.max(1, ahead.score - me.score + 1);
    return html`<p class="goal">${parts(past ? 'behind' : 'toPass', { n: html`<b>${number(gap)}</b>`, unit, name: html`<${Name} person=${ahead} />` })}</p>`;
  }
  if (behind)
    return html`<p class="goal">${parts('leadBy', { n: html`<b>${number(me.score - behind.score)}</b>`, unit, name: html`<${Name} person=${behind} />` })}</p>`;
  return html`<p class="goal">${me && me.rank === 1 ? t('leadAlone') : ''}</p>`;
}

function Champion({ person, mine, final }) {
  return html`<div class="champion">
    <span class="crowned"><${Avatar} person=${person} /><span class="crown"><${Icon} name="crown" /></span></span>
    <span class="champion-text"><span class="label">${t(`${final ? 'champion' : 'leading'}${mine ? 'You' : ''}`)}</span><${Name} person=${person} /></span>
    <span class="champion-score">${number(person.score)}</span>
  </div>`;
}

export function Hero({ ranking, state, unit, empty, past }) {
  const { me, entries, total, final } = ranking;
  const champion = entries[0];
  if (!me) {
    return html`<section class=${champion ? 'hero quiet' : 'hero quiet bare'}><div class="hero-top"><span class="label">${past ? longDay(ranking.date) : t('amongFriends')}</span><${Status} state=${state} final=${final} /></div>
      <div>${!champion && html`<${Icon} name="walk" />`}<h2>${empty[0]}</h2><p class="goal">${empty[1]}</p></div>
      ${champion && html`<${Champion} person=${champion} final=${final} />`}</section>`;
  }
  const [before, figure, after] = place(me.rank);
  return html`<section class="hero" aria-label=${`${placeText(me.rank)} ${t('outOf', { total: number(total) })}`}>
    <div class="hero-top"><span class="label">${past ? longDay(ranking.date) : t('amongFriends')}</span><${Status} state=${state} final=${final} /></div>
    <div class="figures">
      <div class="figure"><span class="big"><small>${before}</small><span key=${figure} class="fresh">${figure}</span><small>${after}</small></span><span class="label">${t('outOf', { total: number(total) })}</span></div>
      <div class="figure end"><span class="big score-big"><${Rolling} value=${me.score} /></span><span class="label">${unit}</span></div>
    </div>
    <div class="bar wide"><span style=${{ transform: `scaleX(${champion?.score > 0 ? me.score / champion.score : 1})` }}></span></div>
    <${Goal} ranking=${ranking} unit=${unit} past=${past} />
    ${champion && html`<${Champion} person=${champion} mine=${champion.user_id === me.user_id} final=${final} />`}
  </section>`;
}

export function HeroGhost() {
  return html`<section class="hero quiet ghostly" aria-hidden="true"></section>`;
}

function Actions({ session, ranking, renew, say }) {
  const [busy, setBusy] = useState(false);
  const act = async (work) => {
    setBusy(true);
    try {
      say(await work());
    } catch (problem) {
      say(problem.message || t('wrong'));
    }
    setBusy(false);
  };
  const walk = (n) =>
    act(async () => {
      const me = await call(session.token, `/v1/boards/${session.board}/me`);
      const score = Math.min((me.score ?? 0) + n, 100000);
      if (score === me.score) return t('stepsFull');
      await call(session.token, `/v1/boards/${session.board}/scores`, {
        method: 'POST',
        body: { date: ranking.date, score },
      });
      await renew();
      return t('walked', { n: number(score - (me.score ?? 0)) });
    });
  const give = () =>
    act(async () => {
      const { coins } = await call(session.token, '/demo/gift', {
        method: 'POST',
        body: { user_id: session.user.user_id },
      });
      return t('gave', { n: number(coins) });
    });
  return html`<section class="actions" aria-label=${t('demo')}>
    <div class="actions-text"><h2>${t('demo')}</h2><p>${t('demoHint')}</p></div>
    <div class="buttons">
      ${[500, 3000].map((n) => html`<button class="button" key=${n} disabled=${busy} onClick=${() => walk(n)}><${Icon} name="walk" />${t('addSteps', { n: number(n) })}</button>`)}
      <button class="button gift" disabled=${busy} onClick=${give}><${Icon} name="gift" />${t('gift')}</button>
    </div>
  </section>`;
}

// usePages adds pages behind a first one of the largest size.
function usePages(token, path, first) {
  const [more, setMore] = useState({ entries: [], cursor: null });
  const cursor = more.entries.length ? more.cursor : first?.next_cursor;
  const next = async () => {
    const page = await call(
      token,
      `${path}?limit=${maxPage}&date=${first.date}&cursor=${encodeURIComponent(cursor)}`,
    );
    setMore((was) => ({ entries: [...was.entries, ...page.entries], cursor: page.next_cursor }));
  };
  const seen = new Set(first?.entries.map((entry) => entry.user_id));
  return [
    [
      ...(first?.entries ?? []),
      ...more.entries.filter((entry) => !seen.has(entry.user_id) && seen.add(entry.user_id)),
    ],
    cursor ? next : null,
  ];
}

function Ranked({ session, ranking, state, problem, retry, limit, grow, say, past }) {
  const path = `/v1/boards/${session.board}/friends`;
  const [entries, next] = usePages(session.token, path, ranking);
  if (!ranking)
    return state === 'offline' || state === 'error'
      ? html`<${Trouble} problem=${problem} retry=${retry} />`
      : html`<${Skeleton} />`;
  if (ranking.entries.length === 0) {
    return html`<${Notice} icon="walk" title=${t(past ? 'emptyDay' : 'emptyToday')} hint=${t(past ? 'emptyDayHint' : 'emptyTodayHint')} />`;
  }
  const me = ranking.me?.user_id;
  return html`<${RankingList} label=${t('friends')} entries=${entries} me=${ranking.me} total=${ranking.total} unit=${t('steps')} say=${past ? null : say}
      link=${(entry) => (entry.user_id === me ? '#/history' : `#/history/${entry.user_id}`)} />
    ${next && html`<button class="button more" onClick=${limit < maxPage ? grow : next}>${t('more')}</button>`}`;
}

// Screen lays out one day.
function Screen({ session, today, day, result, retry, limit, grow, renew, say, hear, past }) {
  const { data: ranking, state, problem, at } = result;
  const stale = ranking && (state === 'offline' || state === 'error');
  return html`<h1 class="unseen" tabindex="-1">${day && past ? longDay(day) : t('today')}</h1><div class="columns">
    <div class="side">
      ${ranking ? html`<${Hero} ranking=${ranking} state=${state} unit=${t('steps')} past=${past} empty=${past ? [t('noScorePast'), ''] : [t('noScore'), t('noScoreHint')]} />` : html`<${HeroGhost} />`}
      ${session.people && !past && html`<${Actions} session=${session} ranking=${ranking} renew=${renew} say=${say} />`}
    </div>
    <div class="wide-column">
      <${DayStrip} today=${today} selected=${day ?? today} />
      ${stale && html`<p class="banner" role="status"><${Icon} name="cloud" />${problem?.status === 0 ? t('offlineTitle') : t('unavailable')} · ${t('stale', { time: clockTime(at) })}</p>`}
      <section class=${stale ? 'card list stale' : 'card list'} aria-label=${day ? longDay(day) : t('today')}>
        <${Ranked} key=${day} session=${session} ranking=${ranking} state=${state} problem=${problem} retry=${retry} limit=${limit} grow=${grow} say=${hear} past=${past} />
      </section>
    </div>
  </div>`;
}

export function Today({ session, say, hear, onProblem, onToday }) {
  const [limit, setLimit] = useState(pageSize);
  const [result, renew] = useLive(session.token, session.board, limit);
  useEffect(() => {
    if (result.problem) onProblem(result.problem);
  }, [result.problem]);
  useEffect(() => {
    if (result.data) onToday(result.data.date);
  }, [result.data?.date]);
  return html`<${Screen} session=${session} today=${result.data?.date ?? session.today} day=${result.data?.date ?? session.today} result=${result} limit=${limit} grow=${() => setLimit(Math.min(maxPage, limit * 2))} renew=${renew} say=${say} hear=${hear} />`;
}

export function PastDay({ session, day, onProblem, onToday }) {
  const [limit, setLimit] = useState(pageSize);
  const [result, retry] = useCall(
    session.token,
    `/v1/boards/${session.board}/friends?date=${day}&limit=${limit}`,
  );
  // What today is, for the strip, where the page began on a past day.
  const [boards] = useCall(session.token, session.today ? null : '/v1/boards');
  const found = boards.data?.boards.find((board) => board.name === session.board)?.current.date;
  useEffect(() => {
    if (found) onToday(found);
  }, [found]);
  useEffect(() => {
    if (result.problem) onProblem(result.problem);
  }, [result.problem]);
  return html`<${Screen} session=${session} today=${session.today ?? found ?? day} day=${day} result=${result} retry=${retry} limit=${limit} grow=${() => setLimit(Math.min(maxPage, limit * 2))} past />`;
}
