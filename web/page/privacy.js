// What people decide about who sees whom: the menu of a person, and the lists of choices.
import { fetchJSON, useFetch } from './data.js';
import { Avatar, ErrorNotice, errorText, Icon, Name, nameOf, Skeleton } from './components.js';
import { Dialog, Question } from './dialog.js';
import { addTexts, stripBidi, t, tRich } from './i18n.js';
import { fetchAll } from './pages.js';
import { texts } from './translations-people.js';
import { html, useEffect, useState } from './view.js';

addTexts(texts);

// The kinds of choices about one person, by the last part of their path.
const kinds = ['hidden-from', 'muted', 'blocked'];

const pathOf = (kind, { user_id: id }) => `/v1/${kind}/${encodeURIComponent(id)}`;

// useChoices returns [{choices, error}, reload]: the people whom the viewer has chosen, by
// kind.
export function useChoices(client) {
  const [version, setVersion] = useState(0);
  const [result, setResult] = useState({});
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const load = (kind) => fetchAll(client, `/v1/${kind}`, 'users', signal);
    Promise.all(kinds.map(load)).then(
      (lists) => {
        const choices = Object.fromEntries(kinds.map((kind, i) => [kind, lists[i]]));
        if (!signal.aborted) setResult({ choices });
      },
      (error) => {
        if (!signal.aborted) setResult((was) => ({ ...was, error }));
      },
    );
    return () => controller.abort();
  }, [client, version]);
  return [result, () => setVersion((n) => n + 1)];
}

export const isChosen = (choices, kind, { user_id: id }) =>
  Boolean(choices?.[kind].some((user) => user.user_id === id));

function MenuItem({ title, hint, ...button }) {
  return html`<li>
    <button class="menu-item" ...${button}><b>${title}</b><span>${hint}</span></button>
  </li>`;
}

// PersonMenu is a dialog with what the viewer can do about a person. It calls onDone with
// a text once something is done. canRemove says that the person is a friend.
export function PersonMenu({ client, person, choices, canRemove, onClose, onDone }) {
  const [asked, ask] = useState(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const plain = stripBidi(nameOf(person));
  const name = html`<${Name} user=${person} />`;
  const run = (method, path, done) => async () => {
    setBusy(true);
    try {
      await fetchJSON(client, path, { method });
      onDone(t(done, { name: plain }));
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  };
  const choose = (kind) => run('PUT', pathOf(kind, person), `${kind}_done`);
  const actions = {
    remove: run('DELETE', `/v1/friends/${encodeURIComponent(person.user_id)}`, 'removed'),
    blocked: choose('blocked'),
  };
  const toggle = (kind) => {
    const chosen = isChosen(choices, kind, person);
    const undo = run('DELETE', pathOf(kind, person), `${kind}_undone`);
    return html`<${MenuItem}
      data-action=${kind}
      disabled=${busy}
      title=${t(chosen ? `${kind}_undo` : kind, { name: plain })}
      hint=${t(`${kind}_hint`)}
      onClick=${chosen ? undo : choose(kind)}
    />`;
  };
  const confirmed = (key) => html`<${MenuItem}
    data-action=${key}
    disabled=${busy}
    title=${t(`${key}_menu`)}
    hint=${t(`${key}Hint`)}
    onClick=${() => ask(key)}
  />`;
  const wrong = html`<p class="wrong" role="alert">${error && errorText(error)}</p>`;
  const menu = (close) => html`<ul class="menu" role="list">
      ${toggle('hidden-from')} ${toggle('muted')} ${confirmed('blocked')}
      ${canRemove && confirmed('remove')}
    </ul>
    ${wrong}
    <div class="buttons"><button class="button" onClick=${close}>${t('close')}</button></div>`;
  const question = (close) => html`<${Question}
      hint=${t(`${asked}Hint`)}
      keep=${t('keep')}
      action=${t(`${asked}_menu`)}
      ...${{ busy, close, onConfirm: actions[asked] }}
    />
    ${wrong}`;
  return html`<${Dialog} title=${asked ? tRich(`${asked}Title`, { name }) : name} onClose=${onClose}>
    ${asked ? question : menu}
  <//>`;
}

// HideSwitch hides the viewer from everybody.
function HideSwitch({ client, notify }) {
  const [{ data, state, error }, reload] = useFetch(client, '/v1/me/privacy');
  const [wanted, setWanted] = useState(null);
  const change = async (event) => {
    const hidden = event.target.checked;
    setWanted(hidden);
    try {
      await fetchJSON(client, '/v1/me/privacy', { method: 'PUT', body: { hidden } });
      notify(t(hidden ? 'hideDone' : 'hideUndone'));
      reload();
    } catch (cause) {
      notify(errorText(cause));
      setWanted(null);
    }
  };
  useEffect(() => setWanted(null), [data]);
  if (!data && state !== 'loading') return html`<${ErrorNotice} error=${error} retry=${reload} />`;
  return html`<label class="toggle">
    <input
      id="hide"
      type="checkbox"
      role="switch"
      checked=${wanted ?? data?.hidden ?? false}
      disabled=${!data || wanted !== null}
      onChange=${change}
      aria-describedby="hide-hint"
    />
    <span><b>${t('hide')}</b><span id="hide-hint" class="hint">${t('hideHint')}</span></span>
  </label>`;
}

function Choices({ kind, users, undo }) {
  const row = (user) => html`<li class="person" key=${user.user_id}>
    <${Avatar} user=${user} />
    <span class="who"><${Name} user=${user} /></span>
    <button
      class="button"
      aria-label=${`${t('undo')}: ${stripBidi(nameOf(user))}`}
      onClick=${() => undo(kind, user)}
    >
      ${t('undo')}
    </button>
  </li>`;
  return html`<section class="choices" aria-label=${t(`${kind}_list`)}>
    <h3>${t(`${kind}_list`)}</h3>
    <p class="hint">${t(`${kind}_about`)}</p>
    ${
      users.length > 0
        ? html`<ul class="people" role="list">${users.map(row)}</ul>`
        : html`<p class="nobody">${t('nobody')}</p>`
    }
  </section>`;
}

// Privacy shows what the viewer has decided, and undoes it.
export function Privacy({ client, notify }) {
  const [{ choices, error }, reload] = useChoices(client);
  // The row with the button goes away, so the heading gets the focus.
  const undo = async (kind, user) => {
    try {
      await fetchJSON(client, pathOf(kind, user), { method: 'DELETE' });
      notify(t(`${kind}_undone`, { name: stripBidi(nameOf(user)) }));
      document.getElementById('privacy').focus();
    } catch (cause) {
      notify(errorText(cause));
    }
    reload();
  };
  const lists = () => {
    if (choices) {
      return kinds.map(
        (kind) => html`<${Choices} key=${kind} ...${{ kind, users: choices[kind], undo }} />`,
      );
    }
    if (error) return html`<${ErrorNotice} error=${error} retry=${reload} />`;
    return html`<${Skeleton} rows=${3} />`;
  };
  return html`<section class="card privacy" aria-labelledby="privacy">
    <h2 id="privacy" tabindex="-1"><${Icon} name="lock" />${t('privacy')}</h2>
    <${HideSwitch} client=${client} notify=${notify} />
    ${lists()}
  </section>`;
}
