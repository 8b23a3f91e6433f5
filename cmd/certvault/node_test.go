package main

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
)

func TestNodeList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	d := dbtest.Open(t, dir, "")
	q, err := job.New(d, job.Config{NodeID: "vault-a_1", Info: job.NodeInfo{Name: "vault-a", Roles: "web,work", Release: "1.2.3"}, MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := q.Heartbeat(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if _, err := q.HoldTasks(t.Context(), now, []string{"sweep of mail"}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Nodes []struct {
			ID, Name, State, Version string
			Roles                    []string
		}
		Tasks []struct{ Name, Node string }
	}
	runJSON(t, "", &got, "node", "list", "--data", dir)
	if len(got.Nodes) != 1 || got.Nodes[0].Name != "vault-a" || got.Nodes[0].State != "alive" || got.Nodes[0].Version != "1.2.3" || len(got.Nodes[0].Roles) != 2 ||
		len(got.Tasks) != 1 || got.Tasks[0].Name != "sweep of mail" || got.Tasks[0].Node != "vault-a_1" {
		t.Errorf("node list = %+v, want the node vault-a, which is alive, and its task sweep of mail", got)
	}
	if code, out, errs := certvault(t, "", "node", "list", "--data", dir); code != exitDone || !strings.Contains(out, "vault-a  alive") {
		t.Errorf("node list: exit code = %d, output = %q %q, want %d and the node vault-a, which is alive", code, out, errs, exitDone)
	}
}
