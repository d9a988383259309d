// What the viewer wants to be told of: a part of the account's screen.
import { fetchJSON, useFetch } from './data.js';
import { ErrorNotice, errorText, Icon, Skeleton } from './components.js';
import { addTexts, t } from './i18n.js';
import { canSubscribe, currentSubscription, endPush, subscribe } from './push.js';
import { html, useEffect, useState } from './view.js';

addTexts({
  en: {
    notices: 'Notifications',
    tell_passed: 'Somebody passes me',
    tell_passed_hint: 'At most once an hour, and not at night.',
    tell_likes: 'Somebody likes my steps',
    tell_likes_hint: '',
    tell_requests: 'Somebody wants to be my friend',
    tell_requests_hint: '',
    tell_digest: 'My place in the evening',
    tell_digest_hint: '',
    noPush: 'While this page is open, it says so. It can’t when it is closed: {why}.',
    noPushService: 'the service sends no notifications',
    noPushBrowser: 'this browser takes no notifications',
    pushDenied:
      'This browser does not let the page show notifications. You can allow it in its settings.',
    noticesSaved: 'Saved.',
  },
  'zh-CN': {
    notices: '通知',
    tell_passed: '有人超过我',
    tell_passed_hint: '每小时最多一次，夜间不打扰。',
    tell_likes: '有人给我点赞',
    tell_likes_hint: '',
    tell_requests: '有人想加我为好友',
    tell_requests_hint: '',
    tell_digest: '我晚间的名次',
    tell_digest_hint: '',
    noPush: '页面打开时会提示；关闭后无法通知：{why}。',
    noPushService: '服务不发送通知',
    noPushBrowser: '此浏览器不接收通知',
    pushDenied: '浏览器不允许本页面显示通知，可以在浏览器设置中允许。',
    noticesSaved: '已保存。',
  },
});

const path = '/v1/me/push';
const kinds = ['passed', 'likes', 'requests', 'digest'];

function Choice({ kind, checked, disabled, onChange }) {
  const hint = t(`tell_${kind}_hint`);
  return html`<label class="toggle">
    <input
      type="checkbox"
      role="switch"
      data-tell=${kind}
      checked=${checked}
      disabled=${disabled}
      onChange=${onChange}
    />
    <span><b>${t(`tell_${kind}`)}</b>${hint && html`<span class="hint">${hint}</span>`}</span>
  </label>`;
}

// useChoices returns what useFetch does of the viewer's choices, and the address of this browser's
// subscription, null without one and undefined as long as that is not known.
function useChoices(client) {
  const [result, retry, replace] = useFetch(client, path);
  const [endpoint, setEndpoint] = useState(undefined);
  useEffect(() => {
    currentSubscription().then((subscription) => setEndpoint(subscription?.endpoint ?? null));
  }, [result.data]);
  return [result, retry, replace, endpoint];
}

// Notices chooses what the viewer is told of, in this browser, or, without Web Push, on the open page.
// Nothing is chosen at first, and the browser asks for its permission only when something is.
export function Notices({ session: { client, user }, notify }) {
  const [{ data, state, error }, retry, replace, endpoint] = useChoices(client);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState('');
  const key = data?.vapid_public_key;
  const pushes = key && canSubscribe;
  const isThis = (choice) => choice.endpoint === (pushes ? endpoint : null);
  // A subscription that the browser has no more counts for nothing.
  const tell = (!pushes || endpoint ? data?.subscriptions.find(isThis)?.tell : null) ?? [];
  const change = async (kind, wanted) => {
    const chosen = kinds.filter((other) => (other === kind ? wanted : tell.includes(other)));
    if (chosen.length === 0) {
      if (pushes) await endPush(client);
      else await fetchJSON(client, path, { method: 'DELETE', body: { endpoint: null } });
    } else {
      const browser = pushes ? await subscribe(key, user.user_id) : {};
      if (!browser) return t('pushDenied');
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
      const body = { ...browser, tell: chosen, time_zone: timeZone };
      await fetchJSON(client, path, { method: 'PUT', body });
    }
    replace(await fetchJSON(client, path));
    notify(t('noticesSaved'));
    return '';
  };
  const onChange = (kind) => async (event) => {
    const wanted = event.target.checked;
    setBusy(true);
    setWrong('');
    const failed = await change(kind, wanted).catch(errorText);
    setWrong(failed);
    if (failed) event.target.checked = !wanted;
    setBusy(false);
  };
  const why = t(canSubscribe ? 'noPushService' : 'noPushBrowser');
  const choices = () =>
    html`${(pushes ? kinds : ['passed']).map(
      (kind) => html`<${Choice}
        key=${kind}
        kind=${kind}
        checked=${tell.includes(kind)}
        disabled=${busy || endpoint === undefined}
        onChange=${onChange(kind)}
      />`,
    )}
    ${!pushes && html`<p class="hint">${t('noPush', { why })}</p>`}`;
  const content = () => {
    if (data) return choices();
    if (state === 'loading') return html`<${Skeleton} rows=${2} />`;
    return html`<${ErrorNotice} error=${error} retry=${retry} />`;
  };
  return html`<section class="card privacy" aria-labelledby="notices">
    <h2 id="notices"><${Icon} name="clock" />${t('notices')}</h2>
    ${content()}
    <p class="wrong" role="alert">${wrong}</p>
  </section>`;
}
