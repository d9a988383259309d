// What belongs to your mini program and your server.
module.exports = {
  // The service's address, as in the list of permitted domains (request 合法域名).
  baseUrl: 'https://stepboard.example.com',
  // The mini program's id, as in wechat.apps and in project.config.json.
  appid: 'touristappid',
  // The board of this app in wechat.apps.
  board: 'steps',
};
