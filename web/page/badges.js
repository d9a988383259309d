// What waits for the viewer: friend requests, and likes that are new since today's ranking was seen.
// They are asked for when the page is opened or seen again, when another tab is opened, and after
// something was answered: whoever does nothing on the page asks for nothing.
import { useFetch } from './data.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { read, seenLikesKey, store } from './storage.js';
import { html, useEffect } from './view.js';

addTexts({
  en: {
    badge_friends: { one: '{n} friend request', other: '{n} friend requests' },
    badge_today: { one: '{n} new like', other: '{n} new likes' },
  },
  'zh-CN': { badge_friends: '{n} 个好友申请', badge_today: '{n} 个新的赞' },
});

let refresh = () => {};

// refreshBadges asks again, after something was answered.
export const refreshBadges = () => refresh();

// seeLikes keeps that the viewer of a ranking has seen its likes.
export const seeLikes = ({ date, me }) => store(seenLikesKey, `${me.user_id} ${date} ${me.likes}`);

// newLikes returns how many likes of a ranking its viewer has not seen.
function newLikes({ date, me }) {
  const [id, day, n] = (read(seenLikesKey) ?? '').split(' ');
  const seen = id === me?.user_id && day === date ? Number(n) : 0;
  return Math.max(0, (me?.likes ?? 0) - seen);
}

// Badges counts for onBadges({today, friends}), and shows nothing itself. tab is the one that is open:
// the likes are not asked for while that is today's, which shows them.
export function Badges({ session: { client, board }, tab, onBadges }) {
  const likesPath = `/v1/boards/${board}/friends?limit=1&include=likes`;
  const [{ data: ranking }, askLikes] = useFetch(client, tab === 'today' ? null : likesPath);
  const [{ data: list }, askRequests] = useFetch(client, '/v1/friends/requests');
  useEffect(() => {
    refresh = () => {
      askLikes();
      askRequests();
    };
    const follow = () => document.hidden || refresh();
    document.addEventListener('visibilitychange', follow);
    return () => document.removeEventListener('visibilitychange', follow);
  }, []);
  useEffect(() => {
    const today = tab === 'today' ? 0 : ranking && newLikes(ranking);
    if (today !== undefined) onBadges((was) => ({ ...was, today }));
  }, [ranking]);
  useEffect(() => {
    if (!list) return;
    const friends = list.requests.filter(({ direction }) => direction === 'incoming').length;
    onBadges((was) => ({ ...was, friends }));
  }, [list]);
  return null;
}

// Badge is the number on a tab.
export const Badge = ({ tab, n }) => html`<span class="badge">
  <span aria-hidden="true">${formatNumber(n)}</span>
  <span class="visually-hidden">${t(`badge_${tab}`, { n: formatNumber(n), count: n })}</span>
</span>`;
