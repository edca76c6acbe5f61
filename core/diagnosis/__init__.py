"""Why a cluster is uneven or restless: each cause with what its fix changes on this snapshot."""
