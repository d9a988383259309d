// The competitions of a group: what its screen shows of them, a competition with its standing, and the form
// by which the owner enters the group.
import { fetchJSON, longestPage, pollInterval, useBoard, useFetch, usePages } from './data.js';
import {
  ErrorNotice,
  errorText,
  Icon,
  Notice,
  SegmentedControl,
  Skeleton,
  useTitle,
} from './components.js';
import { TextForm } from './forms.js';
import {
  addDays,
  addTexts,
  formatNumber,
  formatRank,
  rankParts,
  stripBidi,
  t,
  unitOf,
} from './i18n.js';
import { codeOf } from './invitations.js';
import { RankingList } from './ranking.js';
import { DaysPill, formatRange } from './spans.js';
import { texts } from './translations-competitions.js';
import { html, useEffect, useState } from './view.js';

addTexts(texts);

// How often a standing is asked for again, in milliseconds.
const interval = 30000;
const firstLimit = 50;
// How many days after its end a final competition is in the group's screen.
const shownDays = 30;

const pathOf = (id) => `/v1/competitions/${encodeURIComponent(id)}`;
const hrefOf = (group, id, ...parts) =>
  ['#/groups', encodeURIComponent(group), 'competition', encodeURIComponent(id), ...parts].join(
    '/',
  );
const nameOfTeam = (team) => team.name || `#${team.group_id}`;
const scoreOf = ({ score }) => (score === null ? t('othersHidden') : formatNumber(score));

// StatePill says how far a competition is. today is that of its board.
function StatePill({ competition, today }) {
  const { state } = competition;
  if (state === 'final') {
    return html`<span class="pill final"><${Icon} name="check" />${t('final')}</span>`;
  }
  if (state === 'closing')
    return html`<span class="pill slow"><${Icon} name="clock" />${t('closing')}</span>`;
  return html`<${DaysPill} span=${competition} today=${today} />`;
}

// useStanding fetches a competition, and all of its teams, of which it has no more than a page, once there is a
// standing. It returns two pairs of useFetch.
function useStanding(client, id) {
  const [ready, setReady] = useState(false);
  const one = useFetch(client, pathOf(id), ready ? interval : pollInterval);
  const asOf = one[0].data?.as_of;
  useEffect(() => setReady(Boolean(asOf)), [asOf]);
  const path = asOf ? `${pathOf(id)}/teams?limit=${longestPage}` : null;
  return [one, useFetch(client, path, interval)];
}

// CompetitionLink leads to a competition, and says how the group is placed in it. Before there is a standing,
// nobody knows which group of the viewer's takes part, so it is not shown.
function CompetitionLink({ client, group, competition, today }) {
  const { competition_id: id, name, state, from, to } = competition;
  const [, [{ data: teams }]] = useStanding(client, id);
  const line = teams?.entries.find((team) => team.group_id === group);
  if (!line) return null;
  const place = { rank: formatRank(line.rank), n: formatNumber(teams.total), count: teams.total };
  return html`<a class="about card" href=${hrefOf(group, id)}>
    <span class="emblem event"><${Icon} name="boards" /></span>
    <span class="about-text">
      <b><bdi>${name}</bdi></b>
      <span>${state === 'planned' ? formatRange(from, to) : t('teamPlace', place)}</span>
    </span>
    <span class="about-pills"><${StatePill} ...${{ competition, today }} /></span>
  </a>`;
}

// CompetitionLinks are those of a group: of final ones, those that have ended in the last month. Without any, and
// while they can't be asked for, it shows nothing.
export function CompetitionLinks({ session: { client }, group }) {
  const [{ data }] = useFetch(client, '/v1/competitions', interval);
  const list = data?.competitions ?? [];
  const [{ data: boards }] = useFetch(client, list.length > 0 ? '/v1/boards' : null);
  if (!boards) return null;
  const todayOf = (name) => boards.boards.find((board) => board.name === name)?.current.date;
  const link = (competition) => {
    const today = todayOf(competition.board);
    if (competition.state === 'final' && addDays(competition.to, shownDays) < today) return null;
    const key = competition.competition_id;
    return html`<${CompetitionLink} key=${key} ...${{ client, group, competition, today }} />`;
  };
  return list.map(link);
}

// ruleOf says what counts in a competition, in sentences.
const ruleOf = ({ measure, goal, cap, team }, unit) =>
  [
    measure === 'goal_days'
      ? t('ruleGoal', { n: formatNumber(goal), unit: unitOf(unit, goal) })
      : t('ruleScore'),
    cap !== null && t('ruleCap', { n: formatNumber(cap) }),
    t(team === 'mean' ? 'ruleMean' : 'ruleSum'),
  ].filter(Boolean);

// Winner is the first team of a final standing.
function Winner({ team }) {
  return html`<header class="champion">
    <span class="crowned">
      <span class="avatar group small" aria-hidden="true"><${Icon} name="groups" /></span>
      <span class="crown"><${Icon} name="crown" /></span>
    </span>
    <span class="champion-text">
      <span class="label">${t('winner')}</span><bdi class="name">${nameOfTeam(team)}</bdi>
    </span>
    <span class="champion-score">${scoreOf(team)}</span>
  </header>`;
}

// Place shows the viewer's team and the viewer's own place, large; and who has won.
function Place({ competition, teams, today, unit }) {
  const { me, my_team: team } = competition;
  const pill = html`<${StatePill} ...${{ competition, today }} />`;
  const winner = teams.final && teams.entries[0] && html`<${Winner} team=${teams.entries[0]} />`;
  if (!team) {
    return html`<section class=${winner ? 'hero quiet' : 'hero quiet bare'}>
      ${winner}
      <div class="figures"><h2>${t('noTeam')}</h2>${pill}</div>
      <p class="goal">${t('noTeamHint')}</p>
    </section>`;
  }
  const [prefix, rank, suffix] = rankParts(team.rank);
  const outOf = t('ofTeams', { n: formatNumber(teams.total), count: teams.total });
  const own =
    me &&
    t('ownPlace', {
      rank: formatRank(me.rank),
      n: formatNumber(me.score),
      unit: unitOf(unit, me.score),
    });
  const label = `${stripBidi(nameOfTeam(team))}: ${formatRank(team.rank)} ${outOf}`;
  return html`<section class="hero" aria-label=${label}>
    ${winner}
    <div class="figures">
      <span class="big"><small>${prefix}</small>${rank}<small>${suffix}</small></span>
      <span class="figures-text">
        <span class="label">${outOf}</span>
        <bdi class="label name">${nameOfTeam(team)}</bdi>
        ${pill}
      </span>
      <span class="own-score"><span class="big score-big">${scoreOf(team)}</span></span>
    </div>
    <p class="goal">${competition.state === 'planned' ? t('aheadHint') : own}</p>
  </section>`;
}

function TeamRow({ team, best, own }) {
  const label = t('row', {
    place: formatRank(team.rank),
    name: stripBidi(nameOfTeam(team)),
    score: scoreOf(team),
    unit: '',
  });
  const people = t('people', { n: formatNumber(team.members), count: team.members });
  const scale = best > 0 ? (team.score ?? 0) / best : 0;
  return html`<li class=${own ? 'row own' : 'row'} aria-current=${own ? 'true' : undefined}>
    <div class="inside">
      <span class="visually-hidden">${`${label.trim()}, ${people}`}</span>
      <span class="contents" aria-hidden="true">
        <span class=${`rank rank-${team.rank}`}>${formatNumber(team.rank)}</span>
        <span class="avatar group"><${Icon} name="groups" /></span>
        <span class="who">
          <span class="naming">
            <bdi class="name">${nameOfTeam(team)}</bdi>
            ${own && html`<span class="tag">${t('yourTeam')}</span>`}
          </span>
          <span class="bar"><span style=${{ transform: `scaleX(${scale})` }}></span></span>
          <span class="since">${people}</span>
        </span>
        <span class="score">${scoreOf(team)}</span>
      </span>
    </div>
  </li>`;
}

function Teams({ teams: { entries }, mine }) {
  const best = Math.max(0, ...entries.map((team) => team.score));
  const scores = entries.map(scoreOf);
  const longest = scores.reduce((a, b) => (b.length > a.length ? b : a), '');
  const style = {
    '--rank': `${String(entries.length).length}ch`,
    '--score': JSON.stringify(longest),
  };
  return html`<ol class="ranking" aria-label=${t('teams')} role="list" style=${style}>
    ${entries.map(
      (team) => html`<${TeamRow}
        key=${team.group_id}
        own=${team.group_id === mine?.group_id}
        ...${{ team, best }}
      />`,
    )}
  </ol>`;
}

// Waiting stands for what is not here yet.
const Waiting = ({ error, retry }) =>
  error ? html`<${ErrorNotice} ...${{ error, retry }} />` : html`<${Skeleton} />`;

// People ranks the people of all teams, or those that the viewer is shown.
function People({ session, competition, unit, announce }) {
  const { client, user } = session;
  const path = `${pathOf(competition.competition_id)}/people`;
  const [{ data, error }, retry] = useFetch(client, `${path}?limit=${firstLimit}`, interval);
  const [entries, loadMore, pageError] = usePages(client, path, '', data);
  if (!data) return html`<${Waiting} ...${{ error, retry }} />`;
  if (entries.length === 0) return html`<${Notice} icon="walk" title=${t('emptySpan')} />`;
  const me = competition.me && { ...user, ...competition.me };
  return html`<${RankingList}
      label=${t('individuals')}
      total=${data.total}
      ...${{ entries, me, unit, announce }}
    />
    ${pageError && html`<p class="wrong more" role="alert">${errorText(pageError)}</p>`}
    ${loadMore && html`<button class="button more" onClick=${loadMore}>${t('more')}</button>`}`;
}

// Standing shows a competition; result is that of its teams, once there is a standing.
function Standing({
  session,
  competition,
  result: [{ data: teams, error }, retry],
  group,
  tab,
  announce,
}) {
  const { competition_id: id, measure, as_of: asOf } = competition;
  const [board] = useBoard(session.client, competition.board);
  const today = board?.current.date;
  const unit = board?.unit || 'steps';
  const about = html`<div class="about card">
    <span class="emblem event"><${Icon} name="boards" /></span>
    <div class="about-text">
      <b><bdi>${competition.name}</bdi></b>
      <span>${formatRange(competition.from, competition.to)}</span>
      ${ruleOf(competition, unit).map((rule) => html`<span key=${rule}>${rule}</span>`)}
    </div>
    ${!teams && html`<span class="about-pills"><${StatePill} ...${{ competition, today }} /></span>`}
  </div>`;
  if (!teams) {
    const first = html`<${Notice} icon="clock" title=${t('noStanding')} hint=${t('noStandingHint')} />`;
    return html`${about}
      <section class="card list">${asOf ? html`<${Waiting} ...${{ error, retry }} />` : first}</section>`;
  }
  const options = ['teams', 'individuals'].map((key) => [key, t(key)]);
  const choose = (key) => {
    location.hash = hrefOf(group, id, ...(key === 'teams' ? [] : [key]));
  };
  const counted = measure === 'goal_days' ? t('dayUnit', { count: 2 }) : unit;
  return html`${about}
    <${Place} ...${{ competition, teams, today }} unit=${counted} />
    <${SegmentedControl} label=${t('competition')} value=${tab} options=${options} onChange=${choose} />
    <section class="card list" aria-label=${t(tab)}>
      ${
        tab === 'teams'
          ? html`<${Teams} teams=${teams} mine=${competition.my_team} />`
          : html`<${People} ...${{ session, competition, announce }} unit=${counted} />`
      }
    </section>`;
}

// Competition is the screen of a competition, below the heading of the group.
export function Competition({ session, group, id, tab, header, announce }) {
  const [[{ data, error }, retry], result] = useStanding(session.client, id);
  useTitle(data?.name);
  const shown = tab === 'individuals' ? tab : 'teams';
  return html`<div class="page competition">
    ${header}
    ${
      data
        ? html`<${Standing} competition=${data} tab=${shown} ...${{ session, result, group, announce }} />`
        : html`<section class="card list"><${Waiting} ...${{ error, retry }} /></section>`
    }
  </div>`;
}

const codeError = ({ status }) => (status === 404 ? t('competitionCodeError') : undefined);

// EnterForm enters a group by the code of a competition.
export function EnterForm({ session, group: { group_id: group }, notify }) {
  const enter = async (code) => {
    const body = { code: codeOf(code), group_id: group };
    const { name, competition_id: id } = await fetchJSON(session.client, '/v1/competitions/join', {
      method: 'POST',
      body,
    });
    notify(t('competitionEntered', { name: stripBidi(name) }));
    location.hash = hrefOf(group, id);
  };
  return html`<${TextForm}
    id="competition-code"
    label=${t('enterCompetition')}
    hint=${t('enterCompetitionHint')}
    action=${t('enterAction')}
    submit=${enter}
    textOf=${codeError}
  />`;
}
