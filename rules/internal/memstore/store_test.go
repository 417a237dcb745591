package memstore_test

import (
	"testing"

	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/ledger/ledgertest"
	"github.com/shiplane/limits/rules/internal/memstore"
)

// The store in memory keeps the ledger's contract.
func TestLedger(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) func() ledger.Store {
		s := memstore.New()
		return func() ledger.Store { return s }
	})
}
