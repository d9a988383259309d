// The last 31 days of the viewer or of a friend.
import { useBoard, useFetch } from './data.js';
import {
  Avatar,
  cachedProfile,
  cacheProfiles,
  ErrorNotice,
  Icon,
  Name,
  nameOf,
  Notice,
} from './components.js';
import {
  addDays,
  formatDay,
  formatLongDay,
  formatNumber,
  formatRank,
  formatWeekday,
  locale,
  stripBidi,
  t,
  unitOf,
} from './i18n.js';
import { isLow } from './goal.js';
import { fetchAll } from './pages.js';
import { Summary, Tile } from './summary.js';
import { html, useEffect, useRef, useState } from './view.js';

// statsOf returns the figures of a history. The average leaves out today, which is not
// over; it is null if there is no other day.
function statsOf(entries, today) {
  const better = (a, b) => (b.score > a.score ? b : a);
  const higher = (a, b) => (b.global_rank < a.global_rank ? b : a);
  const sumOf = (days) => days.reduce((total, entry) => total + entry.score, 0);
  const ended = entries.filter(({ date }) => date < today);
  return {
    best: entries.reduce(better),
    bestRank: entries.reduce(higher),
    sum: sumOf(entries),
    average: ended.length > 0 ? Math.round(sumOf(ended) / ended.length) : null,
  };
}

// span is how many days a history has, today included, with or without a score.
const span = 31;

const formatAverage = (average) => (average === null ? '–' : formatNumber(average));

function Chart({ entries, today, unit, stats, selected, onSelect }) {
  const box = useRef(null);
  useEffect(() => {
    let remove = () => {};
    let unmounted = false;
    import('./chart.js').then(({ draw }) => {
      if (unmounted || !box.current) return;
      const first = addDays(today, 1 - span);
      remove = draw(box.current, { entries, first, last: today, stats, onSelect });
    });
    return () => {
      unmounted = true;
      remove();
    };
  }, [entries, today, locale]);
  const label = t('chart', {
    n: entries.length,
    count: entries.length,
    average: formatAverage(stats.average),
    best: formatNumber(stats.best.score),
    day: formatLongDay(stats.best.date),
  });
  return html`<figure class="chart card">
    <figcaption>
      <span class="label">${t('lastDays')}</span>
      <span class="reading" aria-hidden="true">
        <b>${formatNumber(selected.score)}</b>${` ${unitOf(unit, selected.score)} · `}
        ${formatDay(selected.date)}
      </span>
    </figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${label}></div>
    <p class="legend" aria-hidden="true">
      <span><i class="dash"></i>${t('average')}</span>
      <span><i class="dot best"></i>${t('best')}</span>
    </p>
  </figure>`;
}

// Place is the tile of the viewer's own place among friends on a day.
function Place({ session: { client, board }, date }) {
  const [{ data }] = useFetch(client, `/v1/boards/${board}/me?date=${date}`);
  const known = data?.friends_rank && data;
  const note = t('placeNote', {
    total: formatNumber(data?.friends_total ?? 0),
    day: formatDay(date),
  });
  return html`<${Tile}
    label=${t('placeAmongFriends')}
    value=${known ? formatRank(known.friends_rank) : '–'}
    note=${known ? note : formatDay(date)}
  />`;
}

// Tiles shows figures of a history. place, if given, comes first; otherwise the best place among
// everybody is one of them. If the lowest score is first, there are no others.
function Tiles({ entries, stats, place, low }) {
  const { best, bestRank, sum, average } = stats;
  const rank = formatRank(bestRank.global_rank);
  const bestPlace = html`<${Tile}
    label=${t('bestPlace')}
    value=${rank}
    note=${formatDay(bestRank.date)}
  />`;
  if (low) return html`<dl class="tiles">${place || bestPlace}</dl>`;
  return html`<dl class="tiles">
    ${place}
    <${Tile} label=${t('average')} value=${formatAverage(average)} note=${t('averageNote')} />
    <${Tile} label=${t('best')} value=${formatNumber(best.score)} note=${formatDay(best.date)} />
    ${!place && bestPlace}
    <${Tile}
      label=${t('sum')}
      value=${formatNumber(sum)}
      note=${t('total', { n: entries.length, count: entries.length })}
    />
  </dl>`;
}

// Days lists the days; the viewer's own lead to the ranking of each.
function Days({ entries, stats, own, low }) {
  const scale = (score) => (stats.best.score && !low ? score / stats.best.score : 0);
  const day = (entry) => html`<li key=${entry.date}>
    <${own ? 'a' : 'div'} class="past-day" href=${own ? `#/day/${entry.date}` : undefined}>
      <span class="when">
        <b>${formatDay(entry.date)}</b><span class="label">${formatWeekday(entry.date)}</span>
      </span>
      <span class="bar"><span style=${{ transform: `scaleX(${scale(entry.score)})` }}></span></span>
      <span class="score">${formatNumber(entry.score)}</span>
      <span class="world">
        <b>${formatRank(entry.global_rank)}</b>
        <span class="label">${t('outOf', { total: formatNumber(entry.global_total) })}</span>
      </span>
    <//>
  </li>`;
  return html`<section class="card list" aria-label=${t('days')}>
    <div class="list-head">
      <h2>${t('days')}</h2>
      <span class="label">${t('worldPlace')}</span>
    </div>
    <ol class="past" role="list">${entries.map(day)}</ol>
  </section>`;
}

function HistorySkeleton() {
  const tile = (i) => html`<div class="tile card ghostly" key=${i}></div>`;
  return html`<div class="tiles ghosts" role="status">
      <span class="visually-hidden">${t('loading')}</span>
      ${[0, 1, 2, 3].map(tile)}
    </div>
    <div class="chart card ghostly"></div>`;
}

function Title({ friend, user }) {
  const back = (event) => {
    if (history.length <= 1) return;
    event.preventDefault();
    history.back();
  };
  const label = friend ? t('historyOf', { name: stripBidi(nameOf(friend)) }) : t('ownHistory');
  const backLink = html`<a class="round" href="#/" onClick=${back} aria-label=${t('back')}>
    <${Icon} name="back" />
  </a>`;
  return html`<header class="title">
    ${friend && backLink}
    <${Avatar} user=${friend ?? user} size="large" />
    <h1 tabindex="-1" aria-label=${label}>
      ${friend ? html`<${Name} user=${friend} />` : label}
    </h1>
  </header>`;
}

function UserHistory({ session, friend, notify, onError }) {
  const query = friend ? `?for=${encodeURIComponent(friend.user_id)}` : '';
  const path = `/v1/boards/${session.board}/history${query}`;
  const [{ data, error }, retry] = useFetch(session.client, path);
  const [board, boards, retryBoards] = useBoard(session.client, session.board);
  const today = board?.current.date;
  const [selected, setSelected] = useState(null);
  useEffect(() => {
    if (error) onError(error);
  }, [error]);
  useEffect(() => {
    setSelected(null);
  }, [path]);
  const content = () => {
    const failed = error ?? boards.error;
    if (!(data && today) && failed) {
      const retryAll = () => {
        retry();
        retryBoards();
      };
      return html`<section class="card"><${ErrorNotice} error=${failed} retry=${retryAll} /></section>`;
    }
    if (!(data && today)) return html`<${HistorySkeleton} />`;
    const { entries, partial } = data;
    if (entries.length === 0) {
      return html`<section class="card">
        <${Notice} icon="history" title=${t('emptyHistory')} hint=${t('emptyHistoryHint')} />
      </section>`;
    }
    const stats = statsOf(entries, today);
    const chosen = selected ?? entries[0];
    const low = isLow(board);
    const banner = html`<p class="banner" role="status"><${Icon} name="cloud" />${t('partial')}</p>`;
    return html`${partial && banner}
      <${Tiles}
        entries=${entries}
        stats=${stats}
        place=${!friend && html`<${Place} session=${session} date=${chosen.date} />`}
        low=${low}
      />
      ${
        !low &&
        html`<${Chart}
            entries=${entries}
            today=${today}
            unit=${board.unit || 'steps'}
            stats=${stats}
            selected=${chosen}
            onSelect=${setSelected}
          />
          <${Summary} ...${{ session, friend, today, notify }} />`
      }
      <${Days} entries=${entries} stats=${stats} own=${!friend} low=${low} />`;
  };
  return html`<div class="page"><${Title} friend=${friend} user=${session.user} />${content()}</div>`;
}

// useProfile returns the profile of a friend. If no list has shown it yet, it is
// looked up among the friends.
function useProfile(client, id) {
  const [, update] = useState(0);
  const profile = cachedProfile(id);
  useEffect(() => {
    if (!id || profile.known) return undefined;
    const controller = new AbortController();
    fetchAll(client, '/v1/friends', 'friends', controller.signal).then(
      (friends) => {
        cacheProfiles(friends);
        update((n) => n + 1);
      },
      () => {}, // the number is shown instead of the name
    );
    return () => controller.abort();
  }, [client, id]);
  return profile;
}

export function History({ session, path: [id], notify, onError }) {
  const friendId = id && id !== session.user.user_id ? id : null;
  const profile = useProfile(session.client, friendId);
  const friend = friendId && profile;
  return html`<${UserHistory} key=${friend?.user_id} ...${{ session, friend, notify, onError }} />`;
}
