package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stepboard/config"
)

// healthTimeout bounds how long the service may take to respond.
const healthTimeout = 4 * time.Second

func (p *program) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the service on this machine whether it is ready",
		Long:  "Ask the service whether it is ready, on http.metrics_addr if that is set, otherwise on http.addr. It is made for health checks of containers without curl.",
		RunE:  p.onSettings(nil, func(ctx context.Context, cfg config.Config, _ []string) error { return p.askReady(ctx, cfg.HTTP) }),
	}
}

// askReady prints the service's response. It returns an error if the service is not
// ready.
func (p *program) askReady(ctx context.Context, at config.HTTP) (err error) {
	addr, encrypted := at.Addr, at.TLSCert != "" || len(at.ACMEHosts) > 0
	if at.MetricsAddr != "" {
		addr, encrypted = at.MetricsAddr, false
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	scheme, client := "http", &http.Client{}
	if encrypted {
		scheme, client.Transport = "https", &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // it asks this machine by an address that no certificate names
			ServerName:         strings.Join(at.ACMEHosts[:min(1, len(at.ACMEHosts))], ""),
		}}
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the service is not ready: %s", text)
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n", text)
	return err
}
