import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.pulsar.broker.resourcegroup.ResourceGroupService;
import org.apache.pulsar.broker.resourcegroup.ResourceQuotaCalculatorImpl;

/**
 * Asks Pulsar's own quota calculator.
 *
 * <p>Reads one case a line: {"limit", "mine", "all": [...]}, or {"bytes", "reportedBytes", "messages",
 * "reportedMessages", "sinceMs"}; answers one line each: {"share"} or {"told"}.
 */
public final class QuotaDriver {
    public static void main(String[] arguments) throws Exception {
        // a running broker sets it to five periods of 60 s
        Field longest = ResourceGroupService.class.getDeclaredField("maxIntervalForSuppressingReportsMSecs");
        longest.setAccessible(true);
        longest.setLong(null, 5 * 60_000L);
        ObjectMapper json = new ObjectMapper();
        ResourceQuotaCalculatorImpl calculator = new ResourceQuotaCalculatorImpl();
        try (BufferedReader cases = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                JsonNode one = json.readTree(line);
                ObjectNode answer = json.createObjectNode();
                if (one.has("limit")) {
                    long[] all = new long[one.get("all").size()];
                    for (int at = 0; at < all.length; at++) {
                        all[at] = one.get("all").get(at).asLong();
                    }
                    answer.put("share", calculator.computeLocalQuota(
                        one.get("limit").asLong(), one.get("mine").asLong(), all));
                } else {
                    answer.put("told", calculator.needToReportLocalUsage(
                        one.get("bytes").asLong(), one.get("reportedBytes").asLong(),
                        one.get("messages").asLong(), one.get("reportedMessages").asLong(),
                        System.currentTimeMillis() - one.get("sinceMs").asLong()));
                }
                System.out.println(answer);
            }
        }
    }
}
