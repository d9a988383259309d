// Friends, and requests to be friends.
import { call, Problem } from './api.js';
import { number, parts, shortDay, t } from './i18n.js';
import { useCall } from './stream.js';
import {
  Avatar,
  explain,
  Name,
  nameOf,
  Notice,
  remember,
  Skeleton,
  Trouble,
} from './components.js';
import { html, useEffect, useRef, useState } from './view.js';

function Person({ person, note, children }) {
  return html`<li class="person"><${Avatar} person=${person} /><span class="who"><${Name} person=${person} /><span class="label">${note}</span></span><span class="person-actions">${children}</span></li>`;
}

function AskForm({ ask }) {
  const [id, setId] = useState('');
  const [wrong, setWrong] = useState('');
  const submit = async (event) => {
    event.preventDefault();
    const wanted = id.trim();
    if (!/^[1-9]\d{0,15}$/.test(wanted)) {
      setWrong(t('askError'));
      return;
    }
    setWrong('');
    try {
      await ask(wanted);
      setId('');
    } catch (problem) {
      setWrong(problem.message || explain(problem));
    }
  };
  return html`<form class="ask card" onSubmit=${submit} novalidate>
    <label for="ask">${t('askLabel')}</label>
    <div class="field"><input id="ask" inputmode="numeric" autocomplete="off" placeholder=${t('askHint')} value=${id} onInput=${(event) => setId(event.target.value)} aria-invalid=${wrong ? 'true' : undefined} aria-describedby="ask-wrong" />
      <button class="button strong">${t('ask')}</button></div>
    <p id="ask-wrong" class="wrong" role="alert">${wrong}</p>
  </form>`;
}

function Removal({ person, onKeep, onRemove }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} onClose=${onKeep} aria-labelledby="removal">
    <h2 id="removal">${parts('removeTitle', { name: html`<${Name} person=${person} />` })}</h2>
    <p>${t('removeHint')}</p>
    <div class="buttons"><button class="button" onClick=${() => dialog.current.close()}>${t('keep')}</button><button class="button danger" onClick=${onRemove}>${t('remove')}</button></div>
  </dialog>`;
}

function Requests({ requests, act }) {
  if (!requests.length) return null;
  const incoming = requests.filter((request) => request.direction === 'incoming');
  const outgoing = requests.filter((request) => request.direction === 'outgoing');
  const group = (name, list, buttons) =>
    list.length > 0 &&
    html`<section class="card list" aria-label=${t(name)}>
    <div class="list-head"><h2>${t(name)}</h2><span class="count">${number(list.length)}</span></div>
    <ul class="people" role="list">${list.map((person) => html`<${Person} key=${person.user_id} person=${person} note=${`#${person.user_id}`}>${buttons(person)}<//>`)}</ul>
  </section>`;
  const button = (person, text, method, path, strong) =>
    html`<button class=${strong ? 'button strong' : 'button'} aria-label=${`${t(text)}: ${nameOf(person)}`} onClick=${() => act(method, path)}>${t(text)}</button>`;
  return html`
    ${group('incoming', incoming, (person) => html`${button(person, 'decline', 'DELETE', `/v1/friends/requests/${person.user_id}`)}${button(person, 'accept', 'POST', `/v1/friends/requests/${person.user_id}/accept`, true)}`)}
    ${group('outgoing', outgoing, (person) => button(person, 'withdraw', 'DELETE', `/v1/friends/requests/${person.user_id}`))}`;
}

// useAllFriends gathers the pages of the list.
function useAllFriends(token, turn) {
  const [result, set] = useState({ state: 'loading' });
  useEffect(() => {
    const control = new AbortController();
    (async () => {
      try {
        const friends = [];
        let cursor = '';
        do {
          const page = await call(token, `/v1/friends?limit=200${cursor}`, {
            signal: control.signal,
          });
          friends.push(...page.friends);
          cursor = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : '';
        } while (cursor);
        remember(friends);
        friends.sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
        set({ friends, state: 'ready' });
      } catch (problem) {
        if (!control.signal.aborted)
          set((was) => ({
            ...was,
            problem: problem instanceof Problem ? problem : new Problem(0),
            state: 'error',
          }));
      }
    })();
    return () => control.abort();
  }, [token, turn]);
  return result;
}

export function Friends({ session, onProblem, say }) {
  const [turn, again] = useState(0);
  const { friends, problem } = useAllFriends(session.token, turn);
  const [requests, refreshRequests] = useCall(
    session.token,
    '/v1/friends/requests?limit=200',
    10000,
  );
  const [filter, setFilter] = useState('');
  const [leaving, setLeaving] = useState(null);
  useEffect(() => {
    if (problem) onProblem(problem);
  }, [problem]);
  const refresh = () => {
    again((n) => n + 1);
    refreshRequests();
  };
  const act = async (method, path) => {
    try {
      await call(session.token, path, { method });
    } catch (error) {
      say(error.message || explain(error));
    }
    refresh();
  };
  const ask = async (id) => {
    const { status } = await call(session.token, '/v1/friends/requests', {
      method: 'POST',
      body: { user_id: id },
    });
    say(t(status === 'friends' ? 'nowFriends' : 'asked'));
    refresh();
  };
  const remove = () => {
    const person = leaving;
    setLeaving(null);
    act('DELETE', `/v1/friends/${person.user_id}`);
  };
  const wanted = filter.trim().toLowerCase();
  const found = friends?.filter(
    (person) => nameOf(person).toLowerCase().includes(wanted) || person.user_id === wanted,
  );
  const list = () => {
    if (!friends)
      return problem
        ? html`<${Trouble} problem=${problem} retry=${refresh} />`
        : html`<${Skeleton} rows=${6} />`;
    if (!friends.length)
      return html`<${Notice} icon="friends" title=${t('noFriends')} hint=${t('noFriendsHint')} />`;
    if (!found.length) return html`<${Notice} icon="friends" title=${t('noMatch')} />`;
    return html`<ul class="people" role="list">${found.map(
      (person) => html`<li class="person" key=${person.user_id}>
      <a class="inside" href=${`#/history/${person.user_id}`}><${Avatar} person=${person} /><span class="who"><${Name} person=${person} /><span class="label">${t('since', { when: shortDay(person.since.slice(0, 10)) })}</span></span></a>
      <button class="button plain" aria-label=${`${t('remove')}: ${nameOf(person)}`} onClick=${() => setLeaving(person)}>${t('remove')}</button></li>`,
    )}</ul>`;
  };
  return html`<div class="page">
    <header class="title"><h1 tabindex="-1">${t('friends')}</h1></header>
    <${AskForm} ask=${ask} />
    <${Requests} requests=${requests.data?.requests ?? []} act=${act} />
    <section class="card list" aria-label=${t('friends')}>
      ${friends?.length > 0 && html`<div class="list-head"><h2>${t('friendCount', { n: number(friends.length) })}</h2>${friends.length > 8 && html`<input class="search" type="search" aria-label=${t('filter')} placeholder=${t('filter')} value=${filter} onInput=${(event) => setFilter(event.target.value)} />`}</div>`}
      ${list()}
    </section>
    ${leaving && html`<${Removal} person=${leaving} onKeep=${() => setLeaving(null)} onRemove=${remove} />`}
  </div>`;
}
