// The people of a circle of whom the viewer is shown no score on a day, below the last row of its ranking.
import { Avatar, cacheProfiles, Name } from './components.js';
import { longestPage, useFetch } from './data.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { html, useEffect, useRef, useState } from './view.js';

addTexts({
  en: {
    absentToday: 'Nothing yet today',
    absentDay: 'Nothing on that day',
    absentFurther: { one: 'and {n} more', other: 'and {n} more' },
  },
  'zh-CN': {
    absentToday: '今天还没有成绩',
    absentDay: '这一天没有成绩',
    absentFurther: '还有 {n} 人',
  },
});

const firstLimit = 50;

// AbsentPeople lists the absent people of the ranking of a day, and again when the number of those who are
// ranked changes. Nothing tells whether they hide, so nothing here may suggest that they did not walk.
export function AbsentPeople({ session, circle, ranking, past }) {
  const [limit, setLimit] = useState(firstLimit);
  const path = `${circle.path}/absent?date=${ranking.date}&limit=${limit}`;
  const [{ data }, again] = useFetch(session.client, path);
  const ranked = useRef(ranking.total);
  useEffect(() => {
    if (ranked.current !== ranking.total) again();
    ranked.current = ranking.total;
  }, [ranking.total]);
  // While more are asked for, and while the call fails, the last answer stays.
  const last = useRef(null);
  if (data) last.current = data;
  // Somebody may have begun between the two calls.
  const shown = new Set(ranking.entries.map((entry) => entry.user_id));
  const people = (last.current?.entries ?? []).filter(({ user_id: id }) => !shown.has(id));
  if (people.length === 0) return null;
  cacheProfiles(people);
  const { total, next_cursor: next } = last.current;
  const row = (user) => {
    const content = html`<${Avatar} user=${user} /><span class="who"><${Name} user=${user} /></span>`;
    const href = circle.rowHref(user.user_id);
    return html`<li class="person" key=${user.user_id}>
      ${href ? html`<a class="inside" href=${href}>${content}</a>` : html`<div class="inside">${content}</div>`}
    </li>`;
  };
  const further = total - people.length;
  const all = () => setLimit(longestPage);
  return html`<section class="absent" aria-labelledby="absent">
    <h2 class="label" id="absent">${t(past ? 'absentDay' : 'absentToday')}</h2>
    <ul class="people" role="list">${people.map(row)}</ul>
    ${next && limit < longestPage && html`<button class="button more" onClick=${all}>${t('more')}</button>`}
    ${
      next &&
      limit === longestPage &&
      html`<p class="label more">${t('absentFurther', { n: formatNumber(further), count: further })}</p>`
    }
  </section>`;
}
