-- Steps 3 and 5 of nodes: functions with other parameters or columns now, or none that need them.

DROP FUNCTION IF EXISTS packwise_keyword_leg(text, integer[], integer, text[], text[], text[]);
DROP FUNCTION IF EXISTS packwise_vector_leg(vector, integer[], integer, text[], text[], text[],
    boolean);
DROP FUNCTION IF EXISTS packwise_vector_leg(vector, bigint, integer, text[], text[], text[],
    boolean);
DROP FUNCTION IF EXISTS packwise_relevance(text, text, double precision, double precision);
