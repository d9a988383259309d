package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/spf13/cobra"

	"stepboard/app/stores"
	"stepboard/config"
	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/ingest"
)

const (
	demoBoard = "steps"
	// demoTokenTTL outlives every demo.
	demoTokenTTL = 30 * 24 * time.Hour
	// demoChoices is how many people the page offers to be.
	demoChoices = 20
)

// demoOptions is what the command line says.
type demoOptions struct {
	addr, graph, steps string
	users              int
	seed               uint64
}

func (p *program) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try it out: everything in one process, with generated people who walk",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return demo(ctx, o, p.stdout, p.stderr)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", config.Default().HTTP.Addr, "address to listen on")
	flags.IntVar(&o.users, "users", 2000, "how many people there are")
	flags.Uint64Var(&o.seed, "seed", 1, "the same seed makes the same people, friendships and steps")
	flags.StringVar(&o.graph, "graph", "", "take the friendships from this file: two user numbers a line, from 0")
	flags.StringVar(&o.steps, "steps", "", "take the steps from this file: Id,ActivityHour,StepTotal; its people are dealt out to the users in turn")
	return cmd
}

// demo runs the service on embedded stores until ctx ends.
func demo(ctx context.Context, o demoOptions, out, logTo io.Writer) error {
	people, err := newPeople(o)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, o.addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	cfg := config.Default()
	cfg.Auth.HS256Secret = rand.Text() + rand.Text()
	cfg.Log = config.Log{Level: "warn", Format: "text"}
	clock := clockOf(cfg)
	log := newLogger(logTo, cfg.Log)
	st, err := stores.OpenEmbedded(ctx, clock)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	verifier := handlers.NewVerifier(handlers.VerifierConfig{Secret: []byte(cfg.Auth.HS256Secret)})
	sign := func(user models.UserID) (string, error) {
		return handlers.SignToken([]byte(cfg.Auth.HS256Secret), user, "", "", "", time.Now(), demoTokenTTL)
	}
	a, err := New(ctx, Options{
		Config: cfg, Stores: st, Clock: clock, Log: log, Verifier: verifier,
		Extra: func(engine *gin.Engine) { engine.GET("/demo/people", demoPeople(people, sign)) },
	})
	if err != nil {
		verifier.Close()
		return errors.Join(err, st.Close(), listener.Close())
	}
	if err := people.moveIn(ctx, a, clock); err != nil {
		return errors.Join(err, a.Close(), listener.Close())
	}
	if err := welcome(out, listener.Addr(), people, a, clock, sign); err != nil {
		return errors.Join(err, a.Close(), listener.Close())
	}
	var walking sync.WaitGroup
	walkCtx, stopWalking := context.WithCancel(ctx)
	walking.Go(func() { people.walk(walkCtx, a, clock, log) })
	err = a.Serve(ctx, listener)
	stopWalking()
	walking.Wait()
	return errors.Join(err, a.Close())
}

// welcome says where to look and what to type.
func welcome(out io.Writer, addr net.Addr, people *people, a *App, clock models.Clock, sign func(models.UserID) (string, error)) error {
	board, err := a.Catalog.Board(demoBoard)
	if err != nil {
		return err
	}
	me := people.ids[0]
	token, err := sign(me)
	if err != nil {
		return err
	}
	base := "http://" + addr.String()
	_, err = fmt.Fprintf(out, `Stepboard demo: %d people and %d friendships, in memory. All of it is gone when you stop it.

  page  %[3]s/
  API   %[3]s/docs

You are user %[4]v, %[5]s. Your ranking, and a walk of yours:

  TOKEN=%[6]s
  curl -H "Authorization: Bearer $TOKEN" '%[3]s/v1/boards/steps/friends?limit=5'
  curl -H "Authorization: Bearer $TOKEN" -d '{"date":"%[7]v","score":20000}' %[3]s/v1/boards/steps/scores

`, len(people.ids), len(people.edges), base, me, people.profile(me).Nickname, token, board.Today(clock()))
	return err
}

// demoPeople offers the page some people to be, with their tokens.
func demoPeople(people *people, sign func(models.UserID) (string, error)) gin.HandlerFunc {
	type choice struct {
		UserID   models.UserID `json:"user_id"`
		Nickname string        `json:"nickname"`
		Token    string        `json:"token"`
	}
	return func(c *gin.Context) {
		choices := make([]choice, 0, demoChoices)
		for _, id := range people.ids[:min(len(people.ids), demoChoices)] {
			token, err := sign(id)
			if err != nil {
				c.AbortWithStatus(http.StatusInternalServerError)
				return
			}
			choices = append(choices, choice{id, people.profile(id).Nickname, token})
		}
		c.JSON(http.StatusOK, gin.H{"people": choices})
	}
}

// uploadAll reports totals of many people at once, as a trusted backend does.
func uploadAll(ctx context.Context, a *App, uploads []ingest.Upload) error {
	rejected, err := a.Ingest.AcceptValid(ctx, demoBoard, uploads)
	if err != nil {
		return err
	}
	if len(rejected) > 0 {
		return rejected[0]
	}
	return nil
}
