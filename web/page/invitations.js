// Invitations to be friends and to groups: the links by which a user invites, and the screens that
// they open.
import { fetchJSON, useFetch } from './data.js';
import { Avatar, ErrorNotice, errorText, Icon, Name, nameOf, Skeleton } from './components.js';
import { Dialog, Question } from './dialog.js';
import { addTexts, formatNumber, stripBidi, t } from './i18n.js';
import { texts } from './translations-invitations.js';
import { html, useEffect, useRef, useState } from './view.js';

addTexts(texts);

// linkOf returns the link of an invite code; kind is join for a group, and invite for a friend.
export const linkOf = (kind, code) => new URL(`./#/${kind}/${code}`, location.href).href;

// codeOf returns the invite code in a text, which may be a whole link.
export const codeOf = (text) => text.split('/').at(-1);

// codeError returns a text for an error about an invite code, or nothing.
export const codeError = (error) => (error.status === 404 ? t('unknownCode') : undefined);

// QRCode draws a text as a QR code, dark on light whatever the colours of the page, with the margin
// that readers need.
function QRCode({ text }) {
  const [code, setCode] = useState(null);
  useEffect(() => {
    import('./vendor/lean-qr.js').then(
      ({ generate }) => setCode(generate(text)),
      () => setCode(null),
    );
  }, [text]);
  if (!code) return null;
  const margin = 4;
  const size = code.size + 2 * margin;
  const squares = [];
  for (let y = 0; y < code.size; y += 1) {
    for (let x = 0; x < code.size; x += 1) {
      if (code.get(x, y)) squares.push(`M${x + margin} ${y + margin}h1v1h-1z`);
    }
  }
  return html`<svg class="qr" viewBox=${`0 0 ${size} ${size}`} role="img" aria-label=${t('qr')}>
    <rect width=${size} height=${size} fill="#fff" />
    <path d=${squares.join('')} fill="#000" />
  </svg>`;
}

// Invitation shows the link by which others come, to copy, to share and to scan. renew, if given,
// ends it by making another one; renewHint says what then happens.
export function Invitation({ link, title, label, hint, renew, renewHint, notify }) {
  const field = useRef(null);
  const [asking, setAsking] = useState(false);
  const [state, setState] = useState({});
  const [scanned, setScanned] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(link);
      notify(t('copied'));
    } catch {
      field.current.select(); // to be copied by hand
    }
  };
  const share = () => navigator.share({ title, url: link }).catch(() => {});
  const ask = () => {
    setState({});
    setAsking(true);
  };
  const confirm = async () => {
    setState({ busy: true });
    try {
      await renew();
      notify(t('renewDone'));
      setAsking(false);
    } catch (error) {
      setState({ error });
    }
  };
  const dialog = () => html`<${Dialog} title=${t('renewTitle')} onClose=${() => setAsking(false)}>
    ${(close) =>
      html`<${Question}
          hint=${renewHint}
          keep=${t('notNow')}
          action=${t('renew')}
          busy=${state.busy}
          close=${close}
          onConfirm=${confirm}
        />
        <p class="wrong" role="alert">${state.error && errorText(state.error)}</p>`}
  <//>`;
  return html`<section class="ask card">
    <label for="invite">${label}</label>
    <div class="field">
      <input
        id="invite"
        ref=${field}
        readonly
        value=${link}
        aria-describedby="invite-hint"
        onFocus=${(event) => event.target.select()}
      />
      <button class="button strong" onClick=${copy}>${t('copy')}</button>
      ${navigator.share && html`<button class="button" onClick=${share}>${t('share')}</button>`}
      ${
        renew &&
        html`<button class="button" aria-haspopup="dialog" onClick=${ask}>${t('renew')}</button>`
      }
    </div>
    <p id="invite-hint" class="hint">${hint}</p>
    <details onToggle=${(event) => setScanned(event.target.open)}>
      <summary>${t('qr')}</summary>
      ${scanned && html`<${QRCode} text=${link} />`}
    </details>
    ${asking && dialog()}
  </section>`;
}

// Invited is the screen of a link. Opening it only asks what the code is for: look is the address of
// that, and show(answer) returns {title, hint, who, done, to}, where done says that nothing is left
// to accept. accept is the address that accepts it, and accepted(answer) returns where that leads and
// a text.
function Invited({ client, code, look, show, action, accept, accepted, notify }) {
  const [{ data, error }, retry] = useFetch(client, `${look}/${encodeURIComponent(code)}`);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState(null);
  const join = async () => {
    setBusy(true);
    try {
      const body = { invite_code: code };
      const [to, text] = accepted(await fetchJSON(client, accept, { method: 'POST', body }));
      notify(text);
      location.replace(to);
    } catch (cause) {
      setRefused(cause);
      setBusy(false);
    }
  };
  const content = () => {
    if (!data && !error)
      return html`<section class="card list"><${Skeleton} rows=${2} /></section>`;
    if (!data && error.status !== 404) {
      return html`<section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>`;
    }
    const shown = data ? show(data) : {};
    const wrong = data ? refused : error;
    const open = shown.done && html`<a class="button strong" href=${shown.to}>${t('openIt')}</a>`;
    return html`<section class="card ask">
      ${shown.who && html`<div class="person">${shown.who}</div>`} ${shown.hint && html`<p>${shown.hint}</p>`}
      <p class="wrong" role="alert">${wrong && (codeError(wrong) ?? errorText(wrong))}</p>
      <div class="buttons">
        ${
          data && !shown.done
            ? html`<button class="button strong" disabled=${busy} onClick=${join}>${action}</button>
                <a class="button" href="#/">${t('notNow')}</a>`
            : open
        }
      </div>
    </section>`;
  };
  const title = (data && show(data).title) ?? t('invitation');
  return html`<div class="page">
    <header class="title"><h1 tabindex="-1">${title}</h1></header>
    ${content()}
  </div>`;
}

// Join is the screen of a link to a group.
export function Join({ session: { client }, path: [code = ''], notify }) {
  const groupHref = (group) => `#/groups/${encodeURIComponent(group.group_id)}`;
  const show = (group) => ({
    title: t(group.member ? 'alreadyMember' : 'groupInvitation', { name: stripBidi(group.name) }),
    hint: group.member ? null : t('groupInvitationHint'),
    who: html`<span class="avatar group" aria-hidden="true"><${Icon} name="groups" /></span>
      <span class="who">
        <bdi class="name">${group.name}</bdi>
        <span class="label">
          ${t('members', { n: formatNumber(group.members), count: group.members })} ·${' '}
          ${t('ownedBy', { name: stripBidi(nameOf({ ...group, user_id: group.owner_id })) })}
        </span>
      </span>`,
    done: group.member,
    to: groupHref(group),
  });
  return html`<${Invited}
    look="/v1/group-invites"
    accept="/v1/groups/join"
    action=${t('join')}
    accepted=${(group) => [groupHref(group), t('groupJoined', { name: group.name })]}
    ...${{ client, code, show, notify }}
  />`;
}

// Befriend is the screen of a link to be friends.
export function Befriend({ session: { client, user }, path: [code = ''], notify }) {
  const show = (inviter) => {
    const name = stripBidi(nameOf(inviter));
    const own = inviter.user_id === user.user_id;
    return {
      title: own
        ? t('ownLink')
        : t(inviter.friends ? 'alreadyFriends' : 'friendInvitation', { name }),
      hint: own ? t('ownLinkHint') : !inviter.friends && t('friendInvitationHint'),
      who:
        !own &&
        html`<${Avatar} user=${inviter} /><span class="who"><${Name} user=${inviter} /></span>`,
      done: own || inviter.friends,
      to: own ? '#/friends' : '#/',
    };
  };
  return html`<${Invited}
    look="/v1/friends/invites"
    accept="/v1/friends/join"
    action=${t('befriend')}
    accepted=${(inviter) => ['#/', t('befriended', { name: stripBidi(nameOf(inviter)) })]}
    ...${{ client, code, show, notify }}
  />`;
}

// FriendInvitation shows a user's own link, by which others become friends.
export function FriendInvitation({ client, notify }) {
  const [{ data, error }, retry, replace] = useFetch(client, '/v1/me/invite');
  if (!data && error) {
    return html`<section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>`;
  }
  if (!data) return html`<section class="card list"><${Skeleton} rows=${2} /></section>`;
  const renew = async () => replace(await fetchJSON(client, '/v1/me/invite', { method: 'POST' }));
  return html`<${Invitation}
    link=${linkOf('invite', data.invite_code)}
    title="Stepboard"
    label=${t('inviteFriends')}
    hint=${t('inviteFriendsHint')}
    renew=${renew}
    renewHint=${t('renewFriendsHint')}
    notify=${notify}
  />`;
}
