// Friends and friend requests.
import { fetchJSON, longestPage, useBoard, useFetch } from './data.js';
import {
  Avatar,
  cacheProfiles,
  ErrorNotice,
  errorText,
  Icon,
  Name,
  nameOf,
  Notice,
  Skeleton,
} from './components.js';
import { refreshBadges } from './badges.js';
import { formatDay, formatNumber, stripBidi, t, tRich } from './i18n.js';
import { FriendInvitation } from './invitations.js';
import { fetchAll } from './pages.js';
import { isChosen, PersonMenu, useChoices } from './privacy.js';
import { html, useEffect, useState } from './view.js';

const requestsPath = '/v1/friends/requests';
const requestsInterval = 10000;
// A list of more friends than this can be searched.
const searchable = 8;

// userIdForm is the form of user ids. Which of them exist, only the service can say.
const userIdForm = /^[\x21-\x7e]{1,128}$/;

function RequestForm({ user, sendRequest }) {
  const [id, setId] = useState('');
  const [error, setError] = useState('');
  const input = (event) => {
    setId(event.target.value);
    setError('');
  };
  const submit = async (event) => {
    event.preventDefault();
    const wanted = id.trim();
    if (!userIdForm.test(wanted)) {
      setError(t('askError'));
      return;
    }
    if (wanted === user.user_id) {
      setError(t('askSelf'));
      return;
    }
    setError('');
    try {
      await sendRequest(wanted);
      setId('');
    } catch (cause) {
      setError(cause.code === 'validation_failed' ? t('askError') : errorText(cause));
    }
  };
  return html`<form class="ask card" onSubmit=${submit} novalidate>
    <label for="ask">${t('askLabel')}</label>
    <div class="field">
      <input
        id="ask"
        autocomplete="off"
        autocapitalize="off"
        spellcheck=${false}
        placeholder=${t('askHint')}
        value=${id}
        onInput=${input}
        aria-invalid=${error ? 'true' : undefined}
        aria-describedby="ask-wrong"
      />
      <button class="button strong">${t('ask')}</button>
    </div>
    <p class="hint">${tRich('ownId', { id: html`<b>${user.user_id}</b>` })}</p>
    <p id="ask-wrong" class="wrong" role="alert">${error}</p>
  </form>`;
}

// RequestList lists requests of one direction. actions are [text, method, path
// below the request, text once it is done, whether it is the main one].
function RequestList({ title, requests, actions, act }) {
  if (requests.length === 0) return null;
  const button = (user, [text, method, subpath, done, main]) => html`<button
    key=${text}
    class=${main ? 'button strong' : 'button'}
    aria-label=${`${t(text)}: ${nameOf(user)}`}
    onClick=${() => act(method, `${requestsPath}/${encodeURIComponent(user.user_id)}${subpath}`, done, user)}
  >
    ${t(text)}
  </button>`;
  // Without a nickname the name is the user id already.
  const label = (id) => html`<span class="name label" title=${id}>#${id}</span>`;
  const row = (user) => html`<li class="person" key=${user.user_id}>
    <${Avatar} user=${user} />
    <span class="who">
      <${Name} user=${user} />
      ${user.nickname && label(user.user_id)}
    </span>
    <span class="person-actions">${actions.map((action) => button(user, action))}</span>
  </li>`;
  return html`<section class="card list" aria-label=${title}>
    <div class="list-head">
      <h2>${title}</h2>
      <span class="count">${formatNumber(requests.length)}</span>
    </div>
    <ul class="people" role="list">${requests.map(row)}</ul>
  </section>`;
}

const incomingActions = [
  ['decline', 'DELETE', '', 'declined'],
  ['accept', 'POST', '/accept', 'accepted', true],
];
const outgoingActions = [['withdraw', 'DELETE', '', 'withdrawn']];

function Requests({ requests, act }) {
  const towards = (direction) => requests.filter((request) => request.direction === direction);
  return html`<${RequestList}
      title=${t('incoming')}
      requests=${towards('incoming')}
      actions=${incomingActions}
      act=${act}
    />
    <${RequestList}
      title=${t('outgoing')}
      requests=${towards('outgoing')}
      actions=${outgoingActions}
      act=${act}
    />`;
}

// useAllFriends returns {friends, error} with all pages of the list, sorted by
// name, and loads it again when version changes.
function useAllFriends(client, version) {
  const [result, setResult] = useState({});
  useEffect(() => {
    const controller = new AbortController();
    const load = async () => {
      try {
        const friends = await fetchAll(client, '/v1/friends', 'friends', controller.signal);
        cacheProfiles(friends);
        friends.sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
        setResult({ friends });
      } catch (error) {
        if (controller.signal.aborted) return;
        setResult((was) => ({ ...was, error }));
      }
    };
    load();
    return () => controller.abort();
  }, [client, version]);
  return result;
}

// dayIn returns the day of an instant in a time zone, as YYYY-MM-DD. A zone that the
// browser does not have is replaced by the visitor's.
function dayIn(timeZone, instant) {
  const options = { year: 'numeric', month: '2-digit', day: '2-digit' };
  let format;
  try {
    format = new Intl.DateTimeFormat('en', { ...options, timeZone });
  } catch {
    format = new Intl.DateTimeFormat('en', options);
  }
  const parts = Object.fromEntries(
    format.formatToParts(new Date(instant)).map(({ type, value }) => [type, value]),
  );
  return `${parts.year}-${parts.month}-${parts.day}`;
}

// FriendRow shows a friend, what the viewer has decided about them, and the day in a time
// zone since when they are one. Without a zone the day is not known yet.
function FriendRow({ friend, timeZone, choices, onMenu }) {
  const since = timeZone && t('since', { when: formatDay(dayIn(timeZone, friend.since)) });
  const tag = (kind) =>
    isChosen(choices, kind, friend) && html`<span class="pill">${t(`${kind}_tag`)}</span>`;
  return html`<li class="person">
    <a class="inside" href=${`#/history/${encodeURIComponent(friend.user_id)}`}>
      <${Avatar} user=${friend} />
      <span class="who"><${Name} user=${friend} /><span class="label since">${since}</span></span>
    </a>
    ${tag('hidden-from')}${tag('muted')}
    <button
      class="round plain"
      aria-haspopup="dialog"
      aria-label=${t('actionsFor', { name: stripBidi(nameOf(friend)) })}
      onClick=${onMenu}
    >
      <${Icon} name="more" />
    </button>
  </li>`;
}

function FriendList({ friends, timeZone, choices, error, retry, onMenu }) {
  const [filter, setFilter] = useState('');
  const wanted = filter.trim().toLowerCase();
  const matches = (friend) =>
    nameOf(friend).toLowerCase().includes(wanted) || friend.user_id.toLowerCase() === wanted;
  const row = (friend) => html`<${FriendRow}
    key=${friend.user_id}
    friend=${friend}
    timeZone=${timeZone}
    choices=${choices}
    onMenu=${() => onMenu(friend)}
  />`;
  const content = () => {
    if (!friends && error) return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    if (!friends) return html`<${Skeleton} rows=${6} />`;
    if (friends.length === 0) {
      return html`<${Notice} icon="friends" title=${t('noFriends')} hint=${t('noFriendsHint')} />`;
    }
    const found = friends.filter(matches);
    if (found.length === 0) return html`<${Notice} icon="friends" title=${t('noMatch')} />`;
    return html`<ul class="people" role="list">${found.map(row)}</ul>`;
  };
  const search = html`<input
    class="search"
    type="search"
    aria-label=${t('filter')}
    placeholder=${t('filter')}
    value=${filter}
    onInput=${(event) => setFilter(event.target.value)}
  />`;
  const head = () => html`<div class="list-head">
    <h2>${t('friendCount', { n: formatNumber(friends.length), count: friends.length })}</h2>
    ${friends.length > searchable && search}
  </div>`;
  return html`<section class="card list" aria-label=${t('friends')}>
    ${friends?.length > 0 && head()}
    ${content()}
  </section>`;
}

export function Friends({ session, onError, notify }) {
  const { client } = session;
  const [version, setVersion] = useState(0);
  const { friends, error } = useAllFriends(client, version);
  const listPath = `${requestsPath}?limit=${longestPage}`;
  const [requests, reloadRequests] = useFetch(client, listPath, requestsInterval);
  const [board] = useBoard(client, session.board);
  const [{ choices }, reloadChoices] = useChoices(client);
  const [chosen, openMenu] = useState(null);
  useEffect(() => {
    if (error) onError(error);
  }, [error]);
  const reload = () => {
    setVersion((n) => n + 1);
    reloadRequests();
    refreshBadges();
  };
  // The row with the button goes away, so the heading gets the focus.
  const act = async (method, path, done, user) => {
    try {
      await fetchJSON(client, path, { method });
      notify(t(done, { name: stripBidi(nameOf(user)) }));
      document.querySelector('main h1').focus();
    } catch (cause) {
      notify(errorText(cause));
    }
    reload();
  };
  const sendRequest = async (id) => {
    const options = { method: 'POST', body: { user_id: id } };
    const { status } = await fetchJSON(client, requestsPath, options);
    notify(t(status === 'friends' ? 'nowFriends' : 'asked'));
    reload();
  };
  // A friend who is removed has no row any more, so the heading gets the focus.
  const onDone = (text) => {
    document.querySelector('dialog').close(); // as long as it is open, nothing else gets the focus
    openMenu(null);
    notify(text);
    document.querySelector('main h1').focus();
    reload();
    reloadChoices();
  };
  const menu = () => html`<${PersonMenu}
    person=${chosen}
    onClose=${() => openMenu(null)}
    canRemove
    ...${{ client, choices, onDone }}
  />`;
  return html`<div class="page">
    <header class="title"><h1 tabindex="-1">${t('friends')}</h1></header>
    <${FriendInvitation} client=${client} notify=${notify} />
    <${RequestForm} user=${session.user} sendRequest=${sendRequest} />
    <${Requests} requests=${requests.data?.requests ?? []} act=${act} />
    <${FriendList}
      friends=${friends}
      timeZone=${board?.time_zone}
      error=${error}
      retry=${reload}
      choices=${choices}
      onMenu=${openMenu}
    />
    ${chosen && menu()}
  </div>`;
}
