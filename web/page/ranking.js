// A ranked list whose rows move to their new places.
import { Avatar, cacheProfiles, keyOf, Name, nameOf, prefersReducedMotion } from './components.js';
import { formatNumber, formatRank, formatTime, stripBidi, t, unitOf } from './i18n.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

// Animations of one row add up, so that it may move again while it is moving.
const moveOptions = {
  duration: 520,
  easing: 'cubic-bezier(.22,.9,.3,1)',
  composite: 'add',
};
const fadeOptions = { duration: 300 };

// lift raises a row that passes others above them, for as long as it moves.
function lift(row) {
  const zIndex = row.classList.contains('own') ? 5 : 4;
  const frames = [
    { zIndex, scale: 1 },
    { zIndex, scale: 1.04, offset: 0.3 },
    { zIndex, scale: 1 },
  ];
  row.animate(frames, { duration: moveOptions.duration });
}

// useMoveAnimation moves each row from its previous place to its new one. All
// rows have the same height, so the distance follows from the two indexes.
function useMoveAnimation(list, entries) {
  const indexes = useRef(new Map());
  useLayoutEffect(() => {
    const previous = indexes.current;
    indexes.current = new Map(entries.map((entry, i) => [keyOf(entry), i]));
    const rows = list.current?.querySelectorAll(':scope > li[data-user]');
    if (previous.size === 0 || !rows?.length) return;
    if (prefersReducedMotion() || document.hidden) return;
    const height = rows[0].offsetHeight;
    const top = list.current.getBoundingClientRect().top;
    // The viewer's row may stick to an edge of the screen, where it must not move.
    const sticks = (row, i) =>
      row.classList.contains('own') &&
      row.getAnimations().length === 0 &&
      Math.abs(row.getBoundingClientRect().top - top - i * height) > 2;
    rows.forEach((row, i) => {
      const before = previous.get(row.dataset.user);
      if (before === i) return;
      if (before === undefined) {
        row.animate([{ opacity: 0 }, { opacity: 1 }], fadeOptions);
        return;
      }
      if (!sticks(row, i)) {
        const start = `translateY(${(before - i) * height}px)`;
        row.animate([{ transform: start }, { transform: 'translateY(0)' }], moveOptions);
      }
      if (before > i) lift(row);
    });
  }, [entries]);
}

const passedTime = 5000;

// usePassed returns how many people the viewer has just passed. Whoever leaves the
// ranking is not passed.
function usePassed(me, total) {
  const [passed, setPassed] = useState(0);
  const last = useRef({});
  useLayoutEffect(() => {
    const before = last.current;
    last.current = { rank: me?.rank, total };
    if (!before.rank || !me || before.rank === me.rank) return;
    const n = before.rank - me.rank - Math.max(0, before.total - total);
    setPassed((was) => (n > 0 ? was + n : 0));
  }, [me?.rank, total]);
  useEffect(() => {
    if (!passed) return undefined;
    const timer = setTimeout(() => setPassed(0), passedTime);
    return () => clearTimeout(timer);
  }, [passed]);
  return passed;
}

const announceInterval = 6000;
const announceDelay = 400;

// useRankAnnouncement announces a change of the viewer's rank to screen readers,
// at most once in announceInterval.
function useRankAnnouncement(me, total, announce) {
  const last = useRef({ rank: me?.rank, at: 0 });
  useEffect(() => {
    if (!me || !announce) return undefined;
    const { rank, at } = last.current;
    if (rank === undefined) last.current.rank = me.rank;
    if (rank === undefined || rank === me.rank) return undefined;
    const send = () => {
      const values = { rank: formatNumber(me.rank), total: formatNumber(total) };
      announce(t(me.rank < rank ? 'movedUp' : 'movedDown', values));
      last.current = { rank: me.rank, at: Date.now() };
    };
    const wait = announceInterval - (Date.now() - at);
    const timer = setTimeout(send, Math.max(announceDelay, wait));
    return () => clearTimeout(timer);
  }, [me?.rank]);
}

// A score above 0 has at least this part of the longest bar, so that it is seen.
const shortestBar = 0.012;

// sinceOf says since when somebody has the score that a neighbour in the list has as well, as the
// first to reach it is ahead; nothing for other scores.
function sinceOf(entries, i) {
  const { score, reached_at: at } = entries[i];
  const isTied = [entries[i - 1], entries[i + 1]].some((other) => other?.score === score);
  return isTied && at ? t('tied', { time: formatTime(at) }) : '';
}

function Row({ entry, best, own, passed, since, unit, href, after }) {
  const label = t('row', {
    place: formatRank(entry.rank),
    name: stripBidi(nameOf(entry)),
    score: formatNumber(entry.score),
    unit: unitOf(unit, entry.score),
  });
  // Where the lowest score is first, the bars of all others are shorter as well.
  const longest = Math.max(entry.score, best);
  const scale = longest > 0 ? Math.max(Math.min(entry.score, best) / longest, shortestBar) : 0;
  const tag = passed
    ? html`<span class="tag passed">${t('passed', { n: formatNumber(passed) })}</span>`
    : html`<span class="tag">${t('you')}</span>`;
  const content = html`<span class="visually-hidden">${label}${since && `, ${since}`}</span>
    <span class="contents" aria-hidden="true">
      <span class=${`rank rank-${entry.rank}`}>${formatNumber(entry.rank)}</span>
      <${Avatar} user=${entry} />
      <span class="who">
        <span class="naming">
          <${Name} user=${entry} />
          ${own && tag}
        </span>
        <span class="bar"><span style=${{ transform: `scaleX(${scale})` }}></span></span>
        ${since && html`<span class="since">${since}</span>`}
      </span>
      <span class="score">${formatNumber(entry.score)}</span>
    </span>`;
  const inside = href
    ? html`<a class="inside" href=${href}>${content}</a>`
    : html`<div class="inside">${content}</div>`;
  return html`<li
    class=${own ? 'row own' : 'row'}
    data-user=${keyOf(entry)}
    aria-current=${own ? 'true' : undefined}
  >
    ${inside} ${after?.(entry, own)}
  </li>`;
}

// RankingList shows entries. If the viewer, me, is not among them, their row
// follows below. unit is what is counted. hrefOf(entry), if given, returns the
// address that a row leads to. after(entry, own), if given, returns what a row has beside that.
// roomy rows leave room for it before it is given.
export function RankingList(props) {
  const { label, entries, me, total, unit, hrefOf, announce, after, roomy } = props;
  const list = useRef(null);
  cacheProfiles(entries);
  const meIsShown = !me || entries.some((entry) => entry.user_id === me.user_id);
  const shown = meIsShown ? entries : [...entries, me];
  useMoveAnimation(list, shown);
  useRankAnnouncement(me, total, announce);
  const passed = usePassed(me, total);
  const best = Math.max(0, entries[0]?.score ?? 0);
  const row = (entry, i) => html`<${Row}
    key=${keyOf(entry)}
    entry=${entry}
    best=${best}
    own=${entry.user_id === me?.user_id}
    passed=${entry.user_id === me?.user_id ? passed : 0}
    since=${sinceOf(shown, i)}
    unit=${unit}
    href=${hrefOf?.(entry)}
    after=${after}
  />`;
  // All rows have room for the longest rank and the longest score, so that names and bars begin and
  // end at the same places.
  const ranks = shown.map((entry) => formatNumber(entry.rank).length);
  const scores = shown.map((entry) => formatNumber(entry.score));
  const longest = scores.reduce((a, b) => (b.length > a.length ? b : a), '');
  return html`<ol
    class=${roomy ? 'ranking roomy' : 'ranking'}
    ref=${list}
    aria-label=${label}
    role="list"
    style=${{ '--rank': `${Math.max(...ranks)}ch`, '--score': JSON.stringify(longest) }}
  >
    ${shown.map(row)}
  </ol>`;
}
