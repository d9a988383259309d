package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/operations/wechat"
	"stepboard/services/platform/auth"
)

// buildWeChat constructs the service of mini programs. idKey is the key of directory.IDHash.
func (a *App) buildWeChat(o Options, idKey []byte) (err error) {
	settings, tokens := o.Config.WeChat, o.Config.Auth
	a.WeChat, err = wechat.New(wechat.Options{
		Apps: weChatApps(settings), URL: settings.APIURL, Store: wechat.NewStore(o.Stores.Gorm, idKey), Directory: a.Directory, Uploads: a.Ingest,
		Returner: a.Erasure, Secret: []byte(tokens.HS256Secret), Clock: o.Machine, Log: o.Log,
		Sign: func(user models.UserID, now time.Time) (string, time.Time, error) {
			token, err := auth.SignToken([]byte(tokens.HS256Secret), user, "", tokens.Issuer, tokens.Audience, now, settings.TokenTTL)
			return token, now.Add(settings.TokenTTL), err
		},
	})
	if err == nil {
		a.registry.MustRegister(newWeChatCollector(a.WeChat))
	}
	return err
}

// weChatApps returns the mini programs of the settings.
func weChatApps(settings config.WeChat) (apps []wechat.App) {
	for _, app := range settings.Apps {
		apps = append(apps, wechat.App{ID: app.AppID, Secret: app.Secret, Board: app.Board})
	}
	return apps
}

// CheckWeChat returns an error unless WeChat knows the mini programs of the settings. One call for each.
func CheckWeChat(ctx context.Context, settings config.WeChat) error {
	for i, app := range weChatApps(settings) {
		if err := wechat.CheckApp(ctx, settings.APIURL, app); err != nil {
			return fmt.Errorf("wechat.apps[%d]: %w", i, err)
		}
	}
	return nil
}

// newWeChatCollector reports logins of mini programs and documents of steps.
func newWeChatCollector(w *wechat.Service) prometheus.Collector {
	s := w.Stats()
	by := func(result string) prometheus.Labels { return prometheus.Labels{"result": result} }
	const logins = "Logins by WeChat, by what it has answered: refused is a wrong appid or secret of the settings."
	const documents = "Documents of steps from WeChat, by whether they could be decrypted and read."
	return newNumbers("stepboard_wechat_",
		number{"logins_total", logins, counter, of(&s.LoggedIn), by("ok")},
		number{"logins_total", logins, counter, of(&s.BadCode), by("bad_code")},
		number{"logins_total", logins, counter, of(&s.Blocked), by("blocked")},
		number{"logins_total", logins, counter, of(&s.Limited), by("limited")},
		number{"logins_total", logins, counter, of(&s.Refused), by("refused")},
		number{"logins_total", logins, counter, of(&s.Unavailable), by("unavailable")},
		number{"documents_total", documents, counter, of(&s.Read), by("read")},
		number{"documents_total", documents, counter, of(&s.Unread), by("unread")},
	)
}
