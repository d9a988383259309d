// Calls of the service, and the login that they need.
const { createClient, StepboardError } = require('./vendor/stepboard.js');
const { appid, baseUrl, board } = require('./config.js');

// ask calls a function of WeChat. Not all of them return promises.
const ask = (name, options) =>
  new Promise((success, fail) => wx[name]({ ...options, success, fail }));

const fetch = async (url, { method, headers, body }) => {
  const answer = await ask('request', { url, method, header: headers, data: body });
  // Phones differ in how they write the names.
  const named = (name) =>
    Object.keys(answer.header).find((key) => key.toLowerCase() === name.toLowerCase());
  return {
    ok: answer.statusCode >= 200 && answer.statusCode < 300,
    status: answer.statusCode,
    headers: { get: (name) => answer.header[named(name)] ?? null },
    json: async () => answer.data,
  };
};

const SESSION = 'session';
const sessions = createClient({ baseUrl, fetch, token: () => null });
let login;

async function newSession() {
  const { code } = await ask('login').catch(() => {
    throw new StepboardError(0); // it needs the network
  });
  const body = { appid, code };
  const session = await sessions.call('POST', '/v1/wechat/sessions', { body });
  wx.setStorageSync(SESSION, session);
  return session;
}

// logIn begins a session, which replaces WeChat's session key. Calls at the same time share one.
function logIn() {
  login =
    login ??
    newSession().finally(() => {
      login = undefined;
    });
  return login;
}

async function token(refused) {
  const kept = wx.getStorageSync(SESSION);
  const valid = kept && kept.token !== refused && Date.parse(kept.expires_at) > Date.now();
  return (valid ? kept : await logIn()).token;
}

const client = createClient({ baseUrl, fetch, token });

const forget = () => wx.clearStorageSync();
const userId = () => wx.getStorageSync(SESSION).user_id;

async function uploadRunData() {
  const { encryptedData, iv } = await ask('getWeRunData');
  const body = { appid, encrypted_data: encryptedData, iv };
  return client.call('POST', '/v1/wechat/steps', { body });
}

async function uploadSteps() {
  await token(); // WeChat wants a login first
  try {
    return await uploadRunData();
  } catch (error) {
    if (error.code !== 'wechat_session_expired') throw error;
  }
  await logIn();
  return uploadRunData();
}

// The errno of WeChat for a user who has not agreed to the privacy declaration.
const NOT_AGREED = 104;

/**
 * sendSteps uploads WeChat's steps. It returns what the user should know: '' for nothing; held: an operator
 * looks at them first; denied: the user has refused the permission; disagreed: the privacy declaration;
 * unreadable: the service could not read them, also after another login; failed: WeChat gave none.
 * It throws a StepboardError for other errors.
 */
async function sendSteps() {
  try {
    const { accepted } = await uploadSteps();
    return accepted.some(({ held }) => held) ? 'held' : '';
  } catch (error) {
    if (error.code === 'wechat_session_expired') return 'unreadable';
    if (error instanceof StepboardError) throw error;
    if (error.errno === NOT_AGREED) return 'disagreed';
    const { authSetting } = await ask('getSetting');
    return authSetting['scope.werun'] === false ? 'denied' : 'failed';
  }
}

const profile = () => client.call('GET', '/v1/me');

async function rename(nickname) {
  // The call replaces the whole profile.
  const { avatar_url, cover_url } = await profile();
  await client.call('PUT', '/v1/me', { body: { nickname, avatar_url, cover_url } });
}

const groups = async () => (await client.call('GET', '/v1/groups')).groups;

/** inviter returns who invites to what: { name, group, settled }. */
async function inviter({ kind, code }) {
  const path = { code };
  if (kind === 'friend') {
    const host = await client.call('GET', '/v1/friends/invites/{code}', { path });
    const settled = host.friends || host.user_id === userId();
    return { name: host.nickname, group: '', settled };
  }
  const { nickname, name, member } = await client.call('GET', '/v1/group-invites/{code}', { path });
  return { name: nickname, group: name, settled: member };
}

/** join accepts an invitation. It returns the id of the group, if it is one to a group. */
async function join({ kind, code }) {
  const body = { invite_code: code };
  if (kind === 'group') return (await client.call('POST', '/v1/groups/join', { body })).group_id;
  await client.call('POST', '/v1/friends/join', { body });
  return '';
}

const friendCode = async () => (await client.call('GET', '/v1/me/invite')).invite_code;

module.exports = {
  ask,
  board,
  client,
  forget,
  friendCode,
  groups,
  inviter,
  join,
  profile,
  rename,
  sendSteps,
  userId,
};
