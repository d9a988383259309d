// What waits for the viewer: friend requests, and likes that are new since today's ranking was seen.
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

const badgesInterval = 60000;

let refresh = () => {};

// refreshBadges asks again, after something was answered.
export const refreshBadges = () => refresh();

// seenLikes returns how many likes of a user's day were seen.
function seenLikes(user, date) {
  const [id, day, n] = (read(seenLikesKey) ?? '').split(' ');
  return id === user.user_id && day === date ? Number(n) : 0;
}

// Badges counts for onBadges({today, friends}), and shows nothing itself. tab is the one that is open.
export function Badges({ session: { token, board, user }, tab, onBadges }) {
  const [{ data: ranking }, askLikes] = useFetch(
    token,
    `/v1/boards/${board}/friends?limit=1&include=likes`,
    badgesInterval,
  );
  const [{ data: list }, askRequests] = useFetch(token, '/v1/friends/requests', badgesInterval);
  useEffect(() => {
    refresh = () => {
      askLikes();
      askRequests();
    };
  }, [token]);
  const likes = ranking?.me?.likes ?? 0;
  const requests = list?.requests.filter(({ direction }) => direction === 'incoming').length ?? 0;
  useEffect(() => {
    if (tab === 'today' && ranking) store(seenLikesKey, `${user.user_id} ${ranking.date} ${likes}`);
    const today = ranking ? Math.max(0, likes - seenLikes(user, ranking.date)) : 0;
    onBadges({ today, friends: requests });
  }, [tab, ranking?.date, likes, requests]);
  return null;
}

// Badge is the number on a tab.
export const Badge = ({ tab, n }) => html`<span class="badge">
  <span aria-hidden="true">${formatNumber(n)}</span>
  <span class="visually-hidden">${t(`badge_${tab}`, { n: formatNumber(n), count: n })}</span>
</span>`;
