// The members of a group, its invitation, and what its owner and members can change.
import { fetchJSON } from './data.js';
import { ChallengeForm } from './challenges.js';
import { EnterForm } from './competitions.js';
import { Avatar, ErrorNotice, errorText, Name, nameOf, Skeleton } from './components.js';
import { Dialog, Question } from './dialog.js';
import { TextForm } from './forms.js';
import { Invitation, linkOf } from './invitations.js';
import { addTexts, formatNumber, stripBidi, t, tRich } from './i18n.js';
import { fetchAll } from './pages.js';
import { texts } from './translations-groups.js';
import { html, useEffect, useRef, useState } from './view.js';

addTexts(texts);

// nameError returns a text for an error about a group's name, or nothing.
export const nameError = (error) =>
  error.code === 'validation_failed' ? t('groupNameError') : undefined;

function MemberList({ group, members, user, ask }) {
  const owns = group.owner_id === user.user_id;
  const row = (member) => {
    const isOwner = member.user_id === group.owner_id;
    const isMe = member.user_id === user.user_id;
    return html`<li class="person" key=${member.user_id}>
      <${Avatar} user=${member} />
      <span class="who"><${Name} user=${member} /></span>
      ${isMe && html`<span class="tag">${t('you')}</span>`}
      ${isOwner && html`<span class="pill">${t('owner')}</span>`}
      ${
        owns &&
        !isMe &&
        html`<button
          class="button"
          aria-haspopup="dialog"
          aria-label=${`${t('remove')}: ${nameOf(member)}`}
          onClick=${() => ask('removeMember', member)}
        >
          ${t('remove')}
        </button>`
      }
    </li>`;
  };
  return html`<section class="card list" aria-label=${t('membersLink')}>
    <div class="list-head">
      <h2>${t('members', { n: formatNumber(members.length), count: members.length })}</h2>
    </div>
    <ul class="people" role="list">${members.map(row)}</ul>
  </section>`;
}

// useMembers returns [{members, error}, reload] with all members of a group.
function useMembers(client, path) {
  const [version, setVersion] = useState(0);
  const [result, setResult] = useState({});
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    fetchAll(client, path, 'member_list', signal).then(
      (members) => {
        if (!signal.aborted) setResult({ members });
      },
      (error) => {
        if (!signal.aborted) setResult((was) => ({ ...was, error }));
      },
    );
    return () => controller.abort();
  }, [client, path, version]);
  return [result, () => setVersion((n) => n + 1)];
}

// Asking is the dialog before a change of the group that can't be undone.
function Asking({ what, member, busy, error, onClose, onConfirm }) {
  const name = member && html`<${Name} user=${member} />`;
  return html`<${Dialog} title=${tRich(`${what}Title`, { name })} onClose=${onClose}>
    ${(close) =>
      html`<${Question}
          hint=${t(`${what}Hint`)}
          keep=${t('notNow')}
          action=${t(`${what}Action`)}
          ...${{ busy, close, onConfirm }}
        />
        <p class="wrong" role="alert">${error && errorText(error)}</p>`}
  <//>`;
}

// reload fetches the group again; replace sets it to what a change has answered.
export function GroupSettings({ session, group, reload, replace, notify, onToday, onError }) {
  const { client, user } = session;
  const path = `/v1/groups/${encodeURIComponent(group.group_id)}`;
  const [{ members, error }, reloadMembers] = useMembers(client, path);
  useEffect(() => {
    reload(); // somebody else may have changed the group since its ranking was opened
  }, []);
  const [asked, setAsked] = useState(null);
  const [state, setState] = useState({});
  const ask = (what, member) => {
    setState({});
    setAsked({ what, member });
  };
  const memberPath = ({ user_id: id }) => `${path}/members/${encodeURIComponent(id)}`;
  const changes = {
    removeMember: () => fetchJSON(client, memberPath(asked.member), { method: 'DELETE' }),
    leave: () => fetchJSON(client, memberPath(user), { method: 'DELETE' }),
    end: () => fetchJSON(client, path, { method: 'DELETE' }),
  };
  const confirm = async () => {
    setState({ busy: true });
    try {
      await changes[asked.what]();
    } catch (cause) {
      setState({ error: cause });
      return;
    }
    const name = asked.member ? stripBidi(nameOf(asked.member)) : group.name;
    notify(t(`${asked.what}Done`, { name }));
    document.querySelector('dialog').close(); // as long as it is open, nothing else gets the focus
    setAsked(null);
    if (asked.what === 'leave' || asked.what === 'end') {
      location.hash = '#/groups';
      return;
    }
    document.querySelector('main h1').focus();
    reload();
    reloadMembers();
  };
  // What a change leaves out is removed. So a change waits for the one before, and begins
  // with its answer.
  const latest = useRef(group);
  latest.current = group;
  const changing = useRef(Promise.resolve());
  const change = (settings, done) => {
    const store = async () => {
      const { name, challenge } = latest.current;
      const body = { name, challenge: challenge ?? undefined, ...settings };
      const changed = await fetchJSON(client, path, { method: 'PUT', body });
      latest.current = changed;
      replace(changed);
      notify(t(done));
      return changed;
    };
    const stored = changing.current.then(store);
    changing.current = stored.catch(() => {});
    return stored;
  };
  const rename = async (name) => (await change({ name }, 'profileSaved')).name;
  const owns = group.owner_id === user.user_id;
  const list = () => {
    if (members) return html`<${MemberList} ...${{ group, members, user, ask }} />`;
    return html`<section class="card list">
      ${error ? html`<${ErrorNotice} error=${error} retry=${reloadMembers} />` : html`<${Skeleton} />`}
    </section>`;
  };
  const dialog = () => html`<${Asking}
    ...${asked}
    ...${state}
    onClose=${() => setAsked(null)}
    onConfirm=${confirm}
  />`;
  const form = () => html`<${TextForm}
    id="rename"
    label=${t('groupName')}
    action=${t('save')}
    initial=${group.name}
    submit=${rename}
    textOf=${nameError}
  />`;
  const renew = async () => replace(await fetchJSON(client, `${path}/invite`, { method: 'POST' }));
  const invitation = () => html`<${Invitation}
    link=${linkOf('join', group.invite_code)}
    title=${group.name}
    label=${t('inviteLink')}
    hint=${t('inviteHint')}
    renew=${owns && renew}
    renewHint=${t('renewHint')}
    notify=${notify}
  />`;
  return html`${group.invite_code && invitation()}
    ${owns && form()}
    ${owns && html`<${ChallengeForm} ...${{ session, group, change, onToday, onError }} />`}
    ${owns && html`<${EnterForm} ...${{ session, group, notify }} />`} ${list()}
    <div class="buttons">
      <button class="button" aria-haspopup="dialog" onClick=${() => ask('leave')}>
        ${t('leaveAction')}
      </button>
      ${
        owns &&
        html`<button class="button" aria-haspopup="dialog" onClick=${() => ask('end')}>
          ${t('endAction')}
        </button>`
      }
    </div>
    ${asked && dialog()}`;
}
