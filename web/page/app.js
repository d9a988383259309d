// The page: who looks, at which screen.
import { call } from './api.js';
import { Boards } from './boards.js';
import { Friends } from './friends.js';
import { History } from './history.js';
import { t } from './i18n.js';
import { known, Skeleton, Trouble } from './components.js';
import { Bars, Message, SignIn } from './layout.js';
import { PastDay, Today } from './today.js';
import { html, render, useCallback, useEffect, useRef, useState } from './view.js';

const isDemo = document.documentElement.hasAttribute('data-demo');
const messageTime = 4500;

// me is who a token speaks for, as far as it can be read: the service alone
// checks it.
function me(token) {
  try {
    const claims = JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')));
    return { user_id: String(claims.sub ?? '0'), nickname: '', avatar_url: '' };
  } catch {
    return { user_id: '0', nickname: '', avatar_url: '' };
  }
}

function useRoute() {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const change = () => set(location.hash);
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  const [tab = '', ...rest] = hash.replace(/^#\/?/, '').split('/');
  return [tab, rest.map(decodeURIComponent)];
}

// useMessages shows one message at a time: say tells something to see and to
// hear, hear what is only heard.
function useMessages() {
  const [message, set] = useState(null);
  const [heard, hear] = useState('');
  const timer = useRef(0);
  const say = useCallback((text) => {
    clearTimeout(timer.current);
    set({ text, id: Date.now() });
    timer.current = setTimeout(() => set(null), messageTime);
  }, []);
  return [html`<${Message} message=${message} heard=${heard} />`, say, hear];
}

// useArrival moves the focus to a screen's heading when one goes there.
function useArrival(hash) {
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) {
      scrollTo(0, 0);
      (document.querySelector('main h1') ?? document.getElementById('main'))?.focus({
        preventScroll: true,
      });
    }
    begun.current = true;
  }, [hash]);
}

function Screens({ session, route, say, hear, onProblem, onToday }) {
  const [tab, rest] = route;
  switch (tab) {
    case 'day':
      return html`<${PastDay} key=${session.token} session=${session} day=${rest[0]} onProblem=${onProblem} onToday=${onToday} />`;
    case 'history': {
      const id = rest[0] && rest[0] !== session.user.user_id ? rest[0] : null;
      return html`<${History} key=${`${session.token} ${id}`} session=${session} friend=${id && session.known(id)} onProblem=${onProblem} />`;
    }
    case 'boards':
      return html`<${Boards} key=${session.token} session=${session} path=${rest} say=${hear} onProblem=${onProblem} />`;
    case 'friends':
      return html`<${Friends} key=${session.token} session=${session} say=${say} onProblem=${onProblem} />`;
    default:
      return html`<${Today} key=${session.token} session=${session} say=${say} hear=${hear} onProblem=${onProblem} onToday=${onToday} />`;
  }
}

function App() {
  const [people, setPeople] = useState(null);
  const [problem, setProblem] = useState(null);
  const [who, setWho] = useState(null); // {token, user}
  const [refused, setRefused] = useState('');
  const [board, setBoard] = useState('steps');
  const [today, setToday] = useState(null);
  const [message, say, hear] = useMessages();
  const route = useRoute();
  const [tab] = route;

  const load = useCallback(() => {
    setProblem(null);
    call(null, '/demo/people').then((answer) => {
      setPeople(answer.people);
      setWho({ token: answer.people[0].token, user: answer.people[0] });
    }, setProblem);
  }, []);
  useEffect(() => {
    if (isDemo) load();
  }, []);
  useArrival(location.hash);
  useEffect(() => {
    const name = { day: 'today', '': 'today' }[tab] ?? tab;
    document.title = `${t(['today', 'history', 'boards', 'friends'].includes(name) ? name : 'today')} · Stepboard`;
  }, [tab]);

  // A token that is not taken any more ends the session; a service without a
  // board of this name has another one of days.
  const onProblem = useCallback(
    async (met) => {
      if (met.status === 401 && !isDemo) {
        setWho(null);
        setRefused(t('badToken'));
      } else if (met.code === 'board_not_found' && who) {
        const { boards } = await call(who.token, '/v1/boards').catch(() => ({ boards: [] }));
        const daily = boards.find((one) => one.kind === 'daily');
        if (daily) setBoard(daily.name);
      }
    },
    [who],
  );

  if (!who) {
    if (!isDemo)
      return html`<${SignIn} message=${refused} signIn=${(token) => {
        setRefused('');
        setToday(null);
        setWho({ token, user: me(token) });
      }} />`;
    return html`<main id="main" class="alone">${problem ? html`<section class="card"><${Trouble} problem=${problem} retry=${load} /></section>` : html`<section class="card list"><${Skeleton} /></section>`}</main>`;
  }
  const session = { ...who, people, board, today, known };
  const choose = (person) => {
    setWho({ token: person.token, user: person });
  };
  const shown = { day: 'today', '': 'today' }[tab] ?? tab;
  return html`<${Bars} session=${session} tab=${shown} choose=${choose} signOut=${() => {
    setWho(null);
    location.hash = '#/';
  }}>
      <${Screens} session=${session} route=${route} say=${say} hear=${hear} onProblem=${onProblem} onToday=${setToday} />
    <//>
    ${message}`;
}

render(html`<${App} />`, document.getElementById('app'));
