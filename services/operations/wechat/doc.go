// Package wechat lets mini programs of WeChat log in and upload steps without a backend of their own.
//
// A login exchanges the code of wx.login for the person's openid and session key, and answers with a token of this
// service. The key decrypts what wx.getWeRunData gives to the mini program. It is stored encrypted, and is
// answered to nobody.
//
// # People
//
// A person is found by openid, then by unionid, which is the same in all mini programs of an account of
// the open platform. Otherwise a user is made, whose id is the unionid, or the openid without one. Package
// people/identities keeps them.
//
// # Steps
//
// The document is encrypted with AES-128 in CBC mode and not signed. Whoever learns why a changed one is refused can
// decrypt and make others in some thousand attempts. So all failures have the same answer, after the same
// time, and a session key is used for 20 failures: one statement counts a failure before the document
// is decrypted, and a success gives it back. An erasure and another secret begin anew. A document that was put
// together from parts of others has bytes that nobody can foresee, and is refused because of them (plainTexts).
package wechat
