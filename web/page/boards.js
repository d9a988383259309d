// All boards: their global lists, the neighbourhood, and friends.
import { boardName, duration, moment, number, t } from './i18n.js';
import { useCall, useLive } from './stream.js';
import { Icon, Notice, Segments, Skeleton, Trouble } from './components.js';
import { RankingList } from './ranking.js';
import { html, useEffect, useState } from './view.js';

const refresh = 3000;
const order = ['daily', 'event', 'rolling'];
const icons = { daily: 'walk', event: 'gift', rolling: 'clock' };

// unitOf guesses what is counted: the service does not say.
const unitOf = (board) =>
  t(board.kind === 'daily' ? 'steps' : board.name.startsWith('gift') ? 'coins' : 'points');

const capital = (text) => text.replace(/^./, (first) => first.toUpperCase());

// useNow is the time, as often as a board's clock needs it.
function useNow(every) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

function Clock({ board }) {
  const now = useNow(1000);
  const { starts_at: starts, ends_at: ends } = board.current;
  if (board.kind !== 'event') return null;
  const [from, to] = [Date.parse(starts), Date.parse(ends)];
  if (now < from)
    return html`<span class="pill slow"><${Icon} name="clock" />${t('startsIn', { time: duration(from - now) })}</span>`;
  if (now >= to) return html`<span class="pill final"><${Icon} name="check" />${t('over')}</span>`;
  return html`<span class="pill live"><${Icon} name="clock" /><span role="timer" aria-live="off">${t('left', { time: duration(to - now) })}</span></span>`;
}

function About({ board, ranking }) {
  const note = t(board.kind, { unit: capital(unitOf(board)), n: board.window_hours });
  return html`<section class="about card">
    <span class=${`emblem ${board.kind}`}><${Icon} name=${icons[board.kind]} /></span>
    <div class="about-text"><h2>${boardName(board.name)}</h2><p>${note}${board.kind === 'event' ? ` · ${t('ends', { when: moment(board.current.ends_at) })}` : ''}</p></div>
    <div class="about-pills"><${Clock} board=${board} />
      ${ranking?.settling && html`<span class="pill slow" role="status"><i></i>${t('settling')}</span>`}
      ${ranking && html`<span class="pill">${t('people', { n: number(ranking.total) })}</span>`}</div>
  </section>`;
}

function List({ board, scope, result, retry, say }) {
  const { data: ranking, state, problem } = result;
  const list = () => {
    if (problem?.code === 'forbidden')
      return html`<${Notice} icon="lock" title=${t('privateTop')} />`;
    if (!ranking)
      return state === 'loading'
        ? html`<${Skeleton} />`
        : html`<${Trouble} problem=${problem} retry=${retry} />`;
    if (ranking.entries.length === 0) {
      const absent = scope === 'around' && ranking.total > 0;
      return html`<${Notice} icon=${icons[board.kind]} title=${t(absent ? 'noScoreBoard' : 'emptyBoard')} hint=${t(absent ? 'noScoreBoardHint' : 'emptyBoardHint')} />`;
    }
    return html`<${RankingList} label=${boardName(board.name)} entries=${ranking.entries} me=${ranking.me} total=${ranking.total} unit=${unitOf(board)} say=${say} />`;
  };
  return html`${board && html`<${About} board=${board} ranking=${ranking} />`}
    <section class="card list" aria-label=${boardName(board.name)}>${list()}</section>`;
}

function GlobalList({ session, board, scope, say }) {
  const [result, retry] = useCall(
    session.token,
    `/v1/boards/${board.name}/${scope}${scope === 'top' ? '?limit=50' : '?radius=10'}`,
    refresh,
  );
  return html`<${List} board=${board} scope=${scope} result=${result} retry=${retry} say=${say} />`;
}

function FriendsList({ session, board, say }) {
  const [result] = useLive(session.token, board.name, 200);
  return html`<${List} board=${board} scope="friends" result=${result} say=${say} />`;
}

export function Boards({ session, path, onProblem, say }) {
  const [{ data, state, problem }, retry] = useCall(session.token, '/v1/boards', 60000);
  const [name, scope = 'top'] = path;
  useEffect(() => {
    if (problem) onProblem(problem);
  }, [problem]);
  const head = html`<header class="title"><h1 tabindex="-1">${t('boards')}</h1></header>`;
  if (!data)
    return html`<div class="page">${head}<section class="card list">${state === 'loading' ? html`<${Skeleton} />` : html`<${Trouble} problem=${problem} retry=${retry} />`}</section></div>`;
  const board =
    data.boards.find((one) => one.name === name) ??
    data.boards.find((one) => one.name === session.board) ??
    data.boards[0];
  const sorted = data.boards.toSorted((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  const go = (to) => {
    location.hash = `#/boards/${board.name}/${to}`;
  };
  const options = [
    ['top', t('top')],
    ['around', t('around')],
    ['friends', t('friends')],
  ];
  const Body = scope === 'friends' ? FriendsList : GlobalList;
  return html`<div class="page">${head}
    <nav class="chips" aria-label=${t('boards')}>${sorted.map((one) => html`<a key=${one.name} class="chip" href=${`#/boards/${one.name}/${scope}`} aria-current=${one === board ? 'page' : undefined}><${Icon} name=${icons[one.kind]} />${boardName(one.name)}</a>`)}</nav>
    <${Segments} label=${t('boards')} options=${options} value=${scope} onChange=${go} />
    <${Body} key=${`${board.name}/${scope}`} session=${session} board=${board} scope=${scope} say=${say} />
  </div>`;
}
