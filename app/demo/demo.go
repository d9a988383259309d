// Package demo runs the whole service on local stores, with simulated people
// who walk and give gifts.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// Options are the flags of the command.
type Options struct {
	// Addr is the address to listen on.
	Addr string
	// Graph is a file of friendships and Steps one of hourly steps. If empty,
	// they are generated.
	Graph, Steps string
	// Users is the number of people, unless Graph is given.
	Users int
	// Seed makes the same people, friendships and steps again.
	Seed uint64
}

// Progress shows what the demo is doing while it starts.
type Progress interface {
	// Show replaces what was shown before.
	Show(format string, args ...any)
	Clear()
}

// Run runs a demo until ctx ends. It prints to out how to use it. Stopping it while
// it starts is no error.
func Run(ctx context.Context, o Options, out io.Writer, log *slog.Logger, progress Progress) error {
	s := &simulation{clock: time.Now, log: log, progress: progress}
	if err := s.begin(ctx, o, out); err != nil {
		if ctx.Err() != nil {
			return s.close()
		}
		return errors.Join(err, s.close())
	}
	return errors.Join(s.run(ctx), s.close())
}

// simulation is the service on local stores, and the people who use it.
type simulation struct {
	*people

	app      *app.App
	stores   *stores.Stores // closed by app
	listener net.Listener
	clock    models.Clock
	log      *slog.Logger
	progress Progress
	secret   []byte       // of tokens
	given    atomic.Int64 // increments, each of which has an event id of its own
}

// begin starts the service, stores the people with their past, and prints how to call
// the API. Errors in the files and the address are found before anything takes time.
func (s *simulation) begin(ctx context.Context, o Options, out io.Writer) (err error) {
	if s.people, err = newPeople(ctx, o); err != nil {
		return err
	}
	var listenConfig net.ListenConfig
	if s.listener, err = listenConfig.Listen(ctx, "tcp", o.Addr); err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	s.base = "http://" + reachable(s.listener.Addr())
	if err := s.build(ctx, o.Addr); err != nil {
		return err
	}
	s.app.Start(ctx)
	if err := s.store(ctx); err != nil {
		return err
	}
	return s.printWelcome(out)
}

// close closes what begin has opened.
func (s *simulation) close() error {
	if s.listener != nil {
		_ = s.listener.Close() // it may be closed already
	}
	if s.app == nil {
		return nil
	}
	return s.app.Close()
}

// build builds the service on local stores; addr is the address of the listener.
func (s *simulation) build(ctx context.Context, addr string) (err error) {
	s.secret = []byte(rand.Text() + rand.Text())
	cfg := config.Default()
	cfg.Auth.HS256Secret = string(s.secret)
	cfg.Limits = config.Limits{}
	cfg.Boards = boards(s.clock())
	receiver, target, err := newReceiver(s.base, s.clock)
	if err != nil {
		return err
	}
	cfg.Webhooks = []config.Webhook{target}
	cfg.Push.Subject = "mailto:demo@example.com" // a browser of the demo can be told, too
	if cfg.Jobs.DigestCron, err = digestCron(s.clock(), cfg.Boards[0].TimeZone); err != nil {
		return err
	}
	if s.stores, err = stores.OpenMemory(ctx, s.clock); err != nil {
		return err
	}
	verifier := auth.NewVerifier(auth.VerifierConfig{Secret: s.secret})
	s.app, err = app.Build(ctx, app.Options{
		Config: cfg, Stores: s.stores, Clock: s.clock, Log: s.log, Verifier: verifier, Roles: app.AllRoles(),
		Extra: func(engine *gin.Engine) {
			engine.GET("/demo/people", s.offerPeople)
			engine.GET("/demo/operator", s.offerOperator)
			engine.POST("/demo/gift", s.giveGift)
			engine.GET(coverPath+":position", s.showCover)
			engine.POST(receiverPath, receiver.receive)
			engine.GET(receiverPath, receiver.list)
		},
	})
	if err != nil {
		verifier.Close()
		return errors.Join(err, s.stores.Close())
	}
	s.app.Handler = onlyHosts(s.app.Handler, addr)
	return nil
}

// printWelcome prints the page's address and calls to try.
func (s *simulation) printWelcome(out io.Writer) error {
	_, err := fmt.Fprintf(out, `Stepboard demo: %d people and %d friendships, in memory. All of it is gone when you stop it.

  page     %[3]s/
  console  %[3]s/console
  API      %[3]s/docs

You are user %[4]v, %[5]s. Your ranking, and a walk of yours:

  TOKEN=%[6]s
  curl -H "Authorization: Bearer $TOKEN" '%[3]s/v1/boards/steps/friends?limit=5'
  curl -H "Authorization: Bearer $TOKEN" -d '{"date":"%[7]v","score":20000}' %[3]s/v1/boards/steps/scores

`, len(s.ids), len(s.edges), s.base, s.ids[0], s.names[0], s.sign(s.ids[0], ""), s.board.Today(s.clock()))
	return err
}

// reachable returns an address of this machine at which a listener can be
// called. For a listener on all addresses that is localhost, because some
// clients refuse 0.0.0.0.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
}
