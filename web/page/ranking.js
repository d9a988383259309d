// A ranked list whose lines move to their new places.
import { number, placeText, plain, t } from './i18n.js';
import { Avatar, Name, nameOf, remember, still } from './components.js';
import { html, useEffect, useLayoutEffect, useRef } from './view.js';

const moving = { duration: 520, easing: 'cubic-bezier(.22,.9,.3,1)', composite: 'add' };

// useMoves animates lines from where they were. Lines are of one height, so
// that places tell how far; movements that overlap add up.
function useMoves(list, entries) {
  const places = useRef(new Map());
  useLayoutEffect(() => {
    const before = places.current;
    places.current = new Map(entries.map((entry, i) => [entry.user_id, i]));
    const rows = list.current?.querySelectorAll(':scope > li[data-user]');
    if (before.size === 0 || !rows?.length || still() || document.hidden) return;
    const height = rows[0].offsetHeight;
    const top = list.current.getBoundingClientRect().top;
    rows.forEach((row, i) => {
      const was = before.get(row.dataset.user);
      if (was === i) return;
      if (was === undefined) {
        row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 300 });
        return;
      }
      // The own line may be held at an edge of the screen: it stays there.
      const held =
        row.classList.contains('own') &&
        row.getAnimations().length === 0 &&
        Math.abs(row.getBoundingClientRect().top - top - i * height) > 2;
      if (!held)
        row.animate(
          [{ transform: `translateY(${(was - i) * height}px)` }, { transform: 'translateY(0)' }],
          moving,
        );
    });
  }, [entries]);
}

// useAnnounced says, now and then, that the own rank has changed.
function useAnnounced(me, total, say) {
  const last = useRef({ rank: me?.rank, at: 0 });
  useEffect(() => {
    if (!me || !say) return undefined;
    const was = last.current;
    if (was.rank === undefined) {
      was.rank = me.rank;
      return undefined;
    }
    if (was.rank === me.rank) return undefined;
    const timer = setTimeout(
      () => {
        say(
          t(me.rank < was.rank ? 'movedUp' : 'movedDown', {
            rank: number(me.rank),
            total: number(total),
          }),
        );
        last.current = { rank: me.rank, at: Date.now() };
      },
      Math.max(400, 6000 - (Date.now() - was.at)),
    );
    return () => clearTimeout(timer);
  }, [me?.rank]);
}

function Line({ entry, best, own, unit, link }) {
  const label = t('row', {
    place: placeText(entry.rank),
    name: plain(nameOf(entry)),
    score: number(entry.score),
    unit,
  });
  const inside = html`
    <span class=${`rank rank-${entry.rank}`}>${number(entry.rank)}</span>
    <${Avatar} person=${entry} />
    <span class="who">
      <span class="naming"><${Name} person=${entry} />${own && html`<span class="tag">${t('you')}</span>`}</span>
      <span class="bar"><span style=${{ transform: `scaleX(${best > 0 ? Math.max(entry.score / best, 0.012) : 0})` }}></span></span>
    </span>
    <span class="score">${number(entry.score)}</span>`;
  return html`<li class=${own ? 'row own' : 'row'} data-user=${entry.user_id} aria-current=${own ? 'true' : undefined}>
    ${link ? html`<a class="inside" href=${link} aria-label=${label}>${inside}</a>` : html`<div class="inside"><span class="unseen">${label}</span><span class="contents" aria-hidden="true">${inside}</span></div>`}
  </li>`;
}

// RankingList shows entries, and below them the own line where it is on none
// of the pages that are shown. link(entry) is where a line leads.
export function RankingList({ label, entries, me, total, unit, link, say, leader }) {
  const list = useRef(null);
  remember(entries);
  const apart = me && !entries.some((entry) => entry.user_id === me.user_id);
  const shown = apart ? [...entries, me] : entries;
  useMoves(list, shown);
  useAnnounced(me, total, say);
  const best = Math.max(leader ?? 0, entries[0]?.score ?? 0);
  const line = (entry) =>
    html`<${Line} key=${entry.user_id} entry=${entry} best=${best} own=${entry.user_id === me?.user_id} unit=${unit} link=${link?.(entry)} />`;
  return html`<ol class="ranking" ref=${list} aria-label=${label} role="list">
    ${shown.map(line)}
  </ol>`;
}
