// Likes of the scores of a day: a heart on each row, and who likes the viewer's own score.
import { fetchJSON, longestPage, useFetch } from './data.js';
import { Avatar, ErrorNotice, Icon, Name, nameOf, Notice, Skeleton } from './components.js';
import { Dialog } from './dialog.js';
import { formatDateTime, formatNumber, stripBidi, t } from './i18n.js';
import { html, useEffect, useRef, useState } from './view.js';

const likesPath = (board, { user_id: id }, date) =>
  `/v1/boards/${board}/likes/${encodeURIComponent(id)}?date=${date}`;

// useOwnLikes returns [ownOf, toggle, version]: what the viewer has decided and the ranking may
// not have. ownOf(id) returns true, false, or undefined without a decision. toggle(entry,
// liked) decides; if the call fails, the decision is taken back with a message. version
// changes with the decisions.
function useOwnLikes({ session, ranking, reload, notify }) {
  const { client, board } = session;
  const decisions = useRef(new Map()).current; // {liked, sent} by user id
  const busy = useRef(new Set()).current; // user ids
  const [version, setVersion] = useState(0);
  const changed = () => setVersion((n) => n + 1);
  useEffect(() => {
    for (const [id, { sent }] of decisions) if (sent) decisions.delete(id);
    changed();
  }, [ranking]);
  const send = async (entry, decision) => {
    try {
      const method = decision.liked ? 'PUT' : 'DELETE';
      await fetchJSON(client, likesPath(board, entry, ranking.date), { method });
      decision.sent = true;
    } catch {
      if (decisions.get(entry.user_id) !== decision) return; // there is another one
      decisions.delete(entry.user_id);
      const text = decision.liked ? 'likeFailed' : 'unlikeFailed';
      notify(t(text, { name: stripBidi(nameOf(entry)) }));
    }
  };
  const toggle = async (entry, liked) => {
    const id = entry.user_id;
    decisions.set(id, { liked, sent: false });
    changed();
    if (busy.has(id)) return; // it is sent after the call that is on its way
    busy.add(id);
    while (decisions.get(id)?.sent === false) await send(entry, decisions.get(id));
    busy.delete(id);
    changed();
    reload?.();
  };
  return [(id) => decisions.get(id)?.liked, toggle, version];
}

// useLikes returns {of, heart, dialog, version} of a ranking of a day with likes: of(entry) returns
// {likes, liked}, or undefined if the entry has none; heart(entry, own) returns the button for a row;
// dialog is the list of those who like the viewer's score, if it is open; the first two change with
// version. reload is called after a like, if the ranking does not follow changes by itself.
export function useLikes({ session, ranking, reload, notify }) {
  const { client, board } = session;
  const [ownOf, toggle, version] = useOwnLikes({ session, ranking, reload, notify });
  const [open, setOpen] = useState(false);
  const of = ({ user_id: id, likes, liked }) => {
    if (likes === undefined) return undefined;
    const wanted = ownOf(id) ?? liked;
    return { liked: wanted, likes: likes + Number(wanted) - Number(liked) };
  };
  const heart = (entry, own) => {
    const like = of(entry);
    if (!like || (own && like.likes === 0)) return null;
    const decided = ownOf(entry.user_id) !== undefined;
    const onClick = own ? () => setOpen(true) : () => toggle(entry, !like.liked);
    return html`<${Heart} ...${{ entry, own, like, decided, onClick }} />`;
  };
  const dialog =
    open &&
    html`<${Likers}
      path=${likesPath(board, ranking.me, ranking.date)}
      client=${client}
      onClose=${() => setOpen(false)}
    />`;
  return { of, heart, dialog, version };
}

function Heart({ entry, own, like, decided, onClick }) {
  const values = { name: stripBidi(nameOf(entry)), n: formatNumber(like.likes), count: like.likes };
  const count = t('likes', values);
  return html`<button
    class=${decided ? 'heart decided' : 'heart'}
    aria-label=${own ? `${t('likers')}: ${count}` : `${t('like', values)}, ${count}`}
    aria-pressed=${own ? undefined : String(like.liked)}
    aria-haspopup=${own ? 'dialog' : undefined}
    onClick=${onClick}
  >
    <${Icon} name="heart" /><span>${like.likes > 0 && values.n}</span>
  </button>`;
}

// Likers lists who likes the viewer's score, the newest first.
function Likers({ client, path, onClose }) {
  const [{ data, state, error }, retry] = useFetch(client, `${path}&limit=${longestPage}`);
  const row = (user) => html`<li class="person" key=${user.user_id}>
    <${Avatar} user=${user} />
    <span class="who">
      <${Name} user=${user} /><span class="label">${formatDateTime(user.liked_at)}</span>
    </span>
  </li>`;
  const list = () => {
    if (!data && state === 'loading') return html`<${Skeleton} rows=${3} />`;
    if (!data) return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    if (data.likes.length === 0) return html`<${Notice} icon="heart" title=${t('noLikers')} />`;
    return html`<ul class="people" role="list" tabindex="0" aria-label=${t('likers')}>
        ${data.likes.map(row)}
      </ul>
      ${data.next_cursor && html`<p>${t('newestLikers', { n: formatNumber(longestPage) })}</p>`}`;
  };
  return html`<${Dialog} title=${t('likers')} onClose=${onClose}>
    ${(close) => html`<div class="likers">${list()}</div>
      <div class="buttons"><button class="button" onClick=${close}>${t('close')}</button></div>`}
  <//>`;
}
