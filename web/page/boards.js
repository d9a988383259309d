// All boards: the global ranking of each, the part around the viewer, and friends.
import { longestPage, useFetch, useLiveRanking, usePages } from './data.js';
import {
  ErrorNotice,
  Icon,
  Notice,
  SegmentedControl,
  Skeleton,
  StaleBanner,
  useLater,
} from './components.js';
import {
  addTexts,
  boardTitle,
  formatDateTime,
  formatLongDay,
  formatNumber,
  t,
  unitTitle,
} from './i18n.js';
import { formatDuration } from './duration.js';
import { isLow } from './goal.js';
import { RankingList } from './ranking.js';
import { friendCircle } from './today.js';
import { texts } from './translations-boards.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

addTexts(texts);

const rankingInterval = 3000;
const boardsInterval = 60000;
const kinds = ['daily', 'event', 'rolling'];
const scopes = ['top', 'around', 'friends'];
const queries = { top: '?limit=50', around: '?radius=10' };
const icons = { daily: 'walk', event: 'gift', rolling: 'clock' };
const takesBest = (board) => board.kind === 'event' && board.takes === 'best';
const iconOf = (board) => (takesBest(board) ? 'crown' : icons[board.kind]);

// unitKey returns the unit of a board, and guesses it if the board has none.
function unitKey(board) {
  if (board.unit) return board.unit;
  if (isLow(board)) return 'points';
  if (board.kind === 'daily') return 'steps';
  return board.name.startsWith('gift') ? 'coins' : 'points';
}

function useNow(interval) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}

// Countdown shows when an event starts or ends.
function Countdown({ board }) {
  const now = useNow(1000);
  if (board.kind !== 'event') return null;
  const start = Date.parse(board.current.starts_at);
  const end = Date.parse(board.current.ends_at);
  if (now < start) {
    const text = t('startsIn', { time: formatDuration(start - now) });
    return html`<span class="pill slow"><${Icon} name="clock" />${text}</span>`;
  }
  if (now >= end) {
    return html`<span class="pill final"><${Icon} name="check" />${t('over')}</span>`;
  }
  const text = t('left', { time: formatDuration(end - now) });
  return html`<span class="pill live">
    <${Icon} name="clock" /><span role="timer" aria-live="off">${text}</span>
  </span>`;
}

// aboutOf returns the name of the text that says what a board ranks.
function aboutOf(board) {
  if (takesBest(board)) return isLow(board) ? 'fastest' : 'best';
  return isLow(board) ? 'low' : board.kind;
}

function BoardHeader({ board, ranking }) {
  let about = t(aboutOf(board), {
    unit: unitTitle(unitKey(board)),
    n: board.window_hours,
    count: board.window_hours,
  });
  if (isLow(board) && board.unit) about += ` · ${board.unit}`;
  if (board.time_zone === 'local') {
    about += ` · ${t('ownDays')}`;
    if (ranking) about += ` · ${formatLongDay(ranking.date)}`;
  }
  if (board.kind === 'event') {
    about += ` · ${t('ends', { when: formatDateTime(board.current.ends_at) })}`;
  }
  const settling = html`<span class="pill slow" role="status"><i></i>${t('settling')}</span>`;
  const total = () => t('people', { n: formatNumber(ranking.total), count: ranking.total });
  return html`<section class="about card">
    <span class=${`emblem ${board.kind}`}><${Icon} name=${iconOf(board)} /></span>
    <div class="about-text"><h2>${boardTitle(board.name)}</h2><p>${about}</p></div>
    <div class="about-pills">
      <${Countdown} board=${board} />
      ${ranking?.settling && settling}
      ${ranking && html`<span class="pill">${total()}</span>`}
    </div>
  </section>`;
}

function BoardRanking({ client, board, scope, result, retry, announce, after }) {
  const { data: ranking, state, error, at } = result;
  const title = boardTitle(board.name);
  const stale = ranking && (state === 'offline' || state === 'error');
  const path = `/v1/boards/${board.name}/friends`;
  const [entries, loadMore] = usePages(client, path, '', scope === 'friends' ? ranking : null);
  const list = () => {
    if (error?.code === 'forbidden') {
      return html`<${Notice} icon="lock" title=${t('privateTop')} />`;
    }
    if (!ranking) {
      if (state === 'loading') return html`<${Skeleton} />`;
      return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    }
    if (ranking.entries.length === 0) {
      const key = scope === 'around' && ranking.total > 0 ? 'noScoreBoard' : 'emptyBoard';
      return html`<${Notice} icon=${iconOf(board)} title=${t(key)} hint=${t(`${key}Hint`)} />`;
    }
    return html`<${RankingList}
      label=${title}
      entries=${scope === 'friends' ? entries : ranking.entries}
      me=${ranking.me}
      total=${ranking.total}
      unit=${unitKey(board)}
      announce=${announce}
      after=${after}
      roomy=${scope === 'friends' && Boolean(ranking.date)}
    />
    ${
      scope === 'friends' &&
      loadMore &&
      html`<button class="button more" onClick=${loadMore}>${t('more')}</button>`
    }`;
  };
  return html`<${BoardHeader} board=${board} ranking=${ranking} />
    ${stale && html`<${StaleBanner} error=${error} at=${at} />`}
    <section class=${stale ? 'card list stale' : 'card list'} aria-label=${title}>
      ${list()}
    </section>`;
}

function GlobalRanking({ session, board, scope, announce }) {
  const path = `/v1/boards/${board.name}/${scope}${queries[scope]}`;
  const [result, retry] = useFetch(session.client, path, rankingInterval);
  return html`<${BoardRanking} ...${{ client: session.client, board, scope, result, retry, announce }} />`;
}

const importDay = () => import('./day.js');

function FriendsRanking({ session, board, scope, notify, announce }) {
  const { client } = session;
  const include = board.kind === 'daily' ? 'likes' : undefined;
  const [result] = useLiveRanking(client, { board: board.name, limit: longestPage, include });
  const ranking = result.data;
  const later = useLater(importDay, ranking?.date);
  const [{ after }, onExtras] = useState({});
  const likes =
    later &&
    ranking?.date &&
    html`<${later.DayLikes}
      key=${ranking.date}
      session=${{ ...session, board: board.name }}
      ...${{ ranking, notify, onExtras }}
    />`;
  return html`<${BoardRanking} ...${{ client, board, scope, result, announce, after }} />${likes}`;
}

function BoardLinks({ boards, board, scope }) {
  const chips = useRef(null);
  useLayoutEffect(() => {
    const chip = chips.current.querySelector('[aria-current]');
    const middle = chip.offsetLeft - (chips.current.clientWidth - chip.offsetWidth) / 2;
    chips.current.scrollLeft = middle - chips.current.offsetLeft;
  }, [board.name]);
  const sorted = boards.toSorted((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind));
  const link = (other) => html`<a
    key=${other.name}
    class="chip"
    href=${`#/boards/${other.name}/${scope}`}
    aria-current=${other === board ? 'page' : undefined}
  >
    <${Icon} name=${iconOf(other)} />${boardTitle(other.name)}
  </a>`;
  return html`<nav class="chips" aria-label=${t('boards')} ref=${chips}>${sorted.map(link)}</nav>`;
}

export function Boards({ session, path, onError, notify, announce }) {
  const [{ data, state, error }, retry] = useFetch(session.client, '/v1/boards', boardsInterval);
  useEffect(() => {
    if (error) onError(error);
  }, [error]);
  const title = html`<header class="title"><h1 tabindex="-1">${t('boards')}</h1></header>`;
  if (!data) {
    const loading = state === 'loading';
    return html`<div class="page">
      ${title}
      <section class="card list">
        ${loading ? html`<${Skeleton} />` : html`<${ErrorNotice} error=${error} retry=${retry} />`}
      </section>
    </div>`;
  }
  const [wantedName, wantedScope] = path;
  const scope = scopes.includes(wantedScope) ? wantedScope : 'top';
  const find = (name) => data.boards.find((board) => board.name === name);
  const board = find(wantedName) ?? find(session.board) ?? data.boards[0];
  const options = scopes.map((key) => [key, t(key)]);
  const select = (key) => {
    location.hash = `#/boards/${board.name}/${key}`;
  };
  const Ranking = scope === 'friends' ? FriendsRanking : GlobalRanking;
  return html`<div class="page boards">
    ${title}
    <${BoardLinks} boards=${data.boards} board=${board} scope=${scope} />
    <${SegmentedControl} label=${t('boards')} options=${options} value=${scope} onChange=${select} />
    <${Ranking} key=${`${board.name}/${scope}`} ...${{ session, board, scope, notify, announce }} />
  </div>`;
}
