// The viewer's groups, and one group with its ranking.
import { fetchJSON, useFetch } from './data.js';
import { Competition, CompetitionLinks } from './competitions.js';
import { ErrorNotice, errorText, Icon, Notice, Skeleton } from './components.js';
import { TextForm } from './forms.js';
import { GroupSettings, nameError } from './group-settings.js';
import { formatNumber, t } from './i18n.js';
import { codeError, codeOf } from './invitations.js';
import { AboutChallenge, Challenge, Month, PastDay, Week } from './spans.js';
import { Today } from './today.js';
import { html, useEffect, useState } from './view.js';

const listInterval = 30000;

const groupHref = (id, view) => `#/groups/${encodeURIComponent(id)}${view ? `/${view}` : ''}`;
const nameOfGroup = (group) => group.name || `#${group.group_id}`;

function GroupRow({ group, user }) {
  const own = group.owner_id === user.user_id;
  const members = t('members', { n: formatNumber(group.members), count: group.members });
  return html`<li class="person">
    <a class="inside" href=${groupHref(group.group_id)}>
      <span class="avatar group" aria-hidden="true"><${Icon} name="groups" /></span>
      <span class="who">
        <bdi class="name">${nameOfGroup(group)}</bdi>
        <span class="label">${members}${own && ` · ${t('yours')}`}</span>
      </span>
    </a>
  </li>`;
}

function GroupList({ session, onError, notify }) {
  const { client, user } = session;
  const [{ data, state, error }, retry] = useFetch(client, '/v1/groups', listInterval);
  useEffect(() => {
    if (error) onError(error);
  }, [error]);
  const open = (group, text, view) => {
    notify(t(text, { name: nameOfGroup(group) }));
    location.hash = groupHref(group.group_id, view);
  };
  const make = async (name) =>
    open(
      await fetchJSON(client, '/v1/groups', { method: 'POST', body: { name } }),
      'groupMade',
      'members', // where its link is
    );
  const join = async (code) => open(await joinGroup(client, codeOf(code)), 'groupJoined');
  const list = () => {
    if (!data) {
      if (state === 'loading') return html`<${Skeleton} rows=${3} />`;
      return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    }
    if (data.groups.length === 0) {
      return html`<${Notice} icon="groups" title=${t('noGroups')} hint=${t('noGroupsHint')} />`;
    }
    const row = (group) => html`<${GroupRow} key=${group.group_id} ...${{ group, user }} />`;
    return html`<ul class="people" role="list">${data.groups.map(row)}</ul>`;
  };
  return html`<div class="page">
    <header class="title"><h1 tabindex="-1">${t('groups')}</h1></header>
    <section class="card list" aria-label=${t('groups')}>${list()}</section>
    <${TextForm}
      id="group-name"
      label=${t('makeGroup')}
      hint=${t('makeGroupHint')}
      action=${t('make')}
      submit=${make}
      textOf=${nameError}
    />
    <${TextForm}
      id="group-code"
      label=${t('joinGroup')}
      hint=${t('joinGroupHint')}
      action=${t('join')}
      submit=${join}
      textOf=${codeError}
    />
  </div>`;
}

const joinGroup = (client, code) =>
  fetchJSON(client, '/v1/groups/join', { method: 'POST', body: { invite_code: code } });

// groupCircle returns the members of a group as a circle of today.js. Members need not be
// friends, so their rows lead nowhere.
const groupCircle = (board, id, challenge) => ({
  path: `/v1/boards/${board}/groups/${encodeURIComponent(id)}`,
  group: id,
  challenge,
  label: t('inTheGroup'),
  among: t('inTheGroupShort'),
  emptyDay: t('emptyGroupDay'),
  href: (...parts) => groupHref(id, parts.join('/')),
  rowHref: () => undefined,
});

function Header({ group, id, back, children }) {
  return html`<header class="title">
    <a class="round" href=${back} aria-label=${t('back')}><${Icon} name="back" /></a>
    <h1 tabindex="-1"><bdi class="name">${group ? nameOfGroup(group) : `#${id}`}</bdi></h1>
    ${children}
  </header>`;
}

// The rankings of a group by the part of the address behind it; today's is Today.
const rankings = { day: PastDay, week: Week, month: Month, challenge: Challenge };

function Group(props) {
  const {
    session,
    path: [id, view, ...rest],
  } = props;
  const [{ data: group, error }, retry, replace] = useFetch(
    session.client,
    `/v1/groups/${encodeURIComponent(id)}?limit=1`,
  );
  const header = (back, children) => html`<${Header} ...${{ group, id, back, children }} />`;
  if (!group && error) {
    return html`<div class="page">
      ${header('#/groups')}
      <section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>
    </div>`;
  }
  if (view === 'members') {
    return html`<div class="page">
      ${header(groupHref(id))}
      ${
        group
          ? html`<${GroupSettings} ...${props} ...${{ group, replace, reload: retry }} />`
          : html`<section class="card list"><${Skeleton} /></section>`
      }
    </div>`;
  }
  if (view === 'competition' && rest[0]) {
    return html`<${Competition}
      key=${rest[0]}
      group=${id}
      id=${rest[0]}
      tab=${rest[1]}
      header=${header(groupHref(id))}
      ...${{ session, announce: props.announce }}
    />`;
  }
  const link = html`<a class="button" href=${groupHref(id, 'members')}>
    <${Icon} name="friends" />${t('membersLink')}
  </a>`;
  const circle = groupCircle(session.board, id, group?.challenge);
  const about = () =>
    html`<${AboutChallenge} challenge=${group.challenge} today=${session.today} />`;
  const top = html`${header('#/groups', link)}
  ${view === 'challenge' && group?.challenge && about()}
  ${!view && html`<${CompetitionLinks} session=${session} group=${id} />`}`;
  const Ranking = Object.hasOwn(rankings, view) ? rankings[view] : Today;
  return html`<${Ranking} ...${props} ...${{ circle, group, header: top, path: rest }} />`;
}

export function Groups(props) {
  const [id] = props.path;
  return id ? html`<${Group} key=${id} ...${props} />` : html`<${GroupList} ...${props} />`;
}
