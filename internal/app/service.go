package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/certvault/certvault/internal/config"
)

// metricsSocket is the name (FileDescriptorName=) of the socket for metrics. Any other socket is the
// public one, because its default name is that of the unit.
const metricsSocket = "metrics"

var errSockets = errors.New("the service manager passed several sockets for the same purpose; the socket unit must have one ListenStream")

// InheritSockets returns the sockets that the service manager opened for this process
// (sd_listen_fds(3)). It removes their variables from the environment, so that programs that the vault
// starts do not use the sockets.
func InheritSockets() (config.Sockets, error) {
	var s config.Sockets
	named, err := activation.ListenersWithNames()
	if err != nil {
		return s, fmt.Errorf("reading the sockets of the service manager: %w", err)
	}
	for name, list := range named {
		place := &s.Public
		if name == metricsSocket {
			place = &s.Metrics
		}
		if *place != nil || len(list) > 1 {
			return s, errSockets
		}
		*place = list[0]
	}
	return s, nil
}

// notify reports a state to the service manager, if there is one (sd_notify(3)).
func (a *App) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		a.log.Warn("the service manager did not get the state of the vault", slog.Any("error", err))
	}
}
