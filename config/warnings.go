package config

import (
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"stepboard/internal/outbound"
	"stepboard/models"
)

// minSecretBits is the information below which a secret is weak. 32 random
// hexadecimal digits have 128 bits.
const minSecretBits = 80

// Warnings returns a sentence about each setting of serve that is allowed but
// dangerous or probably wrong. The sentences contain no secrets.
func (c *Config) Warnings() []string {
	var list []string
	warn := func(wrong bool, text string) {
		if wrong {
			list = append(list, text)
		}
	}
	public := !loopbackOnly(c.HTTP.Addr)
	warn(public && c.Limits.UserPerMinute == 0,
		"limits.user_per_minute is 0: one user can call as often as the machine allows")
	warn(public && c.Limits.AddressPerMinute == 0,
		"limits.address_per_minute is 0: one address can call as often as the machine allows, even without a token")
	for _, proxy := range c.HTTP.TrustedProxies {
		network, err := netip.ParsePrefix(proxy)
		warn(err == nil && network.Bits() == 0,
			"http.trusted_proxies has "+proxy+", which is everybody: any client can claim any address, so addresses are not limited")
	}
	streams := slices.ContainsFunc(c.Boards, func(b Board) bool { return b.ChangeStream })
	warn(c.Rankings.MaxStaleness > 0 && !streams,
		"rankings.max_staleness is set, but no board of the settings has change_stream: their rankings are read from Redis")
	warn(c.Auth.JWKSURL != "" && c.Auth.Audience == "",
		"auth.audience is empty: tokens that the issuer made for other services are accepted")
	warn(strings.HasPrefix(strings.ToLower(c.Auth.JWKSURL), "http:"),
		"auth.jwks_url is not https: an attacker on the network can add a key and sign tokens")
	digests := slices.ContainsFunc(c.Webhooks, func(w Webhook) bool {
		return len(w.Events) == 0 || slices.Contains(w.Events, string(models.OutcomeDigestReady))
	})
	warn(c.Jobs.DigestCron != "" && !digests && c.Push.Subject == "",
		"jobs.digest_cron is set, but no webhook wants digest.ready, and push.subject is not set: there are no digests")
	warn(public && c.Push.Subject != "" && c.Push.PrivateNetwork,
		"push.private_network is set: every user can let this service send to addresses of its own network")
	for _, w := range c.Webhooks {
		u, err := url.Parse(w.URL)
		warn(err == nil && !w.PrivateNetwork && !outbound.IsPublicHost(u.Hostname()),
			"webhooks has "+w.URL+", which is not a public address: nothing is delivered there unless its private_network is set")
		warn(strings.HasPrefix(strings.ToLower(w.URL), "http:") && !w.PrivateNetwork,
			"webhooks has "+w.URL+", which is not https: anybody on the way can read who is friends with whom")
	}
	warn(len(c.WeChat.Apps) > 0 && strings.HasPrefix(strings.ToLower(c.WeChat.APIURL), "http:"),
		"wechat.api_url is not https: anybody on the way can read the secrets of mini programs and their people's session keys")
	for _, p := range c.SignIn.OIDC {
		warn(strings.HasPrefix(strings.ToLower(p.Issuer), "http:"),
			"sign_in.oidc has "+p.Issuer+", which is not https: anybody on the way can sign in as others")
	}
	for _, app := range c.WeChat.Apps {
		warn(c.WeChat.APIURL == wechatURL && !wechatID.MatchString(app.AppID),
			"wechat.apps has the appid "+app.AppID+", which is none of WeChat's: those are wx and 16 digits of hexadecimal numbers")
	}
	for _, b := range c.Boards {
		takes := slices.ContainsFunc(c.WeChat.Apps, func(app WeChatApp) bool { return app.Board == b.Name })
		warn(takes && b.Uploads != string(models.AudienceService),
			"board "+b.Name+" takes steps of WeChat, but uploads is not service: every user can send any other total")
	}
	warn(strings.HasPrefix(strings.ToLower(c.Backup.Endpoint), "http:"),
		"backup.endpoint is not https: anybody on the way can read the copies of the database")
	warn(weak(c.Auth.HS256Secret), "auth.hs256_secret is easy to guess; openssl rand -hex 32 makes a good one")
	warn(weak(c.Auth.HS256PreviousSecret), "auth.hs256_previous_secret is easy to guess")
	return list
}

// wechatID matches the AppIDs that WeChat gives.
var wechatID = regexp.MustCompile(`^wx[0-9a-f]{16}$`)

// loopbackOnly reports whether a listener at addr can be reached only from this
// machine.
func loopbackOnly(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// weak reports whether a secret has little information, because it repeats itself or
// has few different characters. It returns false for the empty secret, which is not
// used.
func weak(secret string) bool {
	if secret == "" {
		return false
	}
	part := secret[:period(secret)]
	counts := make(map[byte]int)
	for i := range len(part) {
		counts[part[i]]++
	}
	bits := 0.0
	for _, n := range counts {
		bits += float64(n) * math.Log2(float64(len(part))/float64(n))
	}
	return bits < minSecretBits
}

// period returns the length of the shortest text whose repetition is s.
func period(s string) int {
	for n := 1; n < len(s); n++ {
		if s[n:] == s[:len(s)-n] {
			return n
		}
	}
	return len(s)
}
